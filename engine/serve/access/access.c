/* engine/serve/access/access.c — from a request to its caller, and from a caller to yes or no.
 *
 * access_enter() finds out who asks (identify()) and refuses what is refused for everybody: a wrong
 * Host, too many requests. The file of tokens is looked at with each request, and read when it has
 * changed, so that a revoked token ends at once, with its sessions.
 *
 * Sessions are in memory: a restart of the server ends them. The cookie is 256 random bits, of
 * which only the digest is kept. Its name has a part of its own for each project, since browsers
 * don't keep cookies of two ports apart. Signing in always makes a new one, so that nobody can
 * plant a session that he knows.
 *
 * Invariants: `lock` protects tokens, sessions and one-time tokens; no file is read under it except
 * the tokens'. Digests are compared, so that the time doesn't depend on the secret.
 */
#include "serve/access/access.h"
#include <arpa/inet.h>
#include <assert.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include "base/crypto/base64.h"
#include "base/os/machine.h"
#include "base/text/text.h"
#include "base/time/clock.h"
#include "serve/access/clients.h"
#include "serve/event.h"

#define ONCE_MAX      8
#define USER_OF_TOKEN "api" /* who gives the token of --token-file */

struct one_time {
	struct digest digest;
	int64_t until_ns;
};

struct net {
	bool is_unix;
	unsigned char bytes[16]; /* IPv4 as ::ffff:a.b.c.d */
	unsigned bits;
};

struct access {
	struct access_options o;
	struct digest token;
	struct net proxies[ACCESS_PROXIES];
	struct clients *clients;
	char cookie[40];
	pthread_mutex_t lock; /* protects the fields below */
	char *dir;
	struct audit *audit;
	struct stat seen; /* of the file of tokens */
	bool broken;
	struct arena *arena; /* of the tokens */
	struct token *tokens;
	size_t n_tokens;
	struct sessions *sessions;
	struct one_time once[ONCE_MAX];
};

const char *way_name(enum way w)
{
	static const char *const names[] = { NULL, "cookie", "bearer", "proxy", "local" };

	return names[w];
}

/* Life cycle. */

static bool parse_address(const char *text, unsigned char out[16])
{
	memcpy(out, (const unsigned char[12]){ [10] = 0xff, [11] = 0xff }, 12);
	return inet_pton(AF_INET, text, out + 12) == 1 || inet_pton(AF_INET6, text, out) == 1;
}

static int parse_net(const char *text, struct net *ret, struct err *err)
{
	const char *slash = strchr(text, '/');
	_cleanup_(freep) char *address =
		slash ? xstrndup(text, (size_t)(slash - text)) : xstrdup(text);
	bool v4 = !strchr(address, ':');
	int64_t bits = v4 ? 32 : 128;

	*ret = (struct net){ .is_unix = str_eq(text, "unix") };
	if (ret->is_unix)
		return 0;
	if (!parse_address(address, ret->bytes) ||
	    (slash && (!text_parse_int(slash + 1, &bits) || bits < 0 || bits > (v4 ? 32 : 128))))
		return err_set(err, ERR_USAGE,
			       "--trust-proxy: `%s` is no address: write 192.0.2.7, 192.0.2.0/24, "
			       "2001:db8::/32 or unix",
			       text);
	ret->bits = (unsigned)bits + (v4 ? 96 : 0);
	return 0;
}

int access_new(const struct access_options *o, struct access **ret, struct err *err)
{
	struct access *a = xcalloc(1, sizeof(*a));

	assert(o->n_proxies <= ACCESS_PROXIES);
	a->o = *o;
	pthread_mutex_init(&a->lock, NULL);
	a->clients = clients_new();
	a->sessions = sessions_new();
	a->arena = arena_new();
	snprintf(a->cookie, sizeof(a->cookie), "cairn_session");
	if (o->token)
		digest_bytes(o->token, strlen(o->token), &a->token);
	for (size_t i = 0; i < o->n_proxies; i++)
		if (parse_net(o->proxies[i], &a->proxies[i], err) < 0) {
			access_free(a);
			return -1;
		}
	*ret = a;
	return 0;
}

void access_free(struct access *a)
{
	if (!a)
		return;
	audit_free(a->audit);
	clients_free(a->clients);
	arena_free(a->arena);
	sessions_free(a->sessions);
	free(a->dir);
	pthread_mutex_destroy(&a->lock);
	free(a);
}

void access_set_dir(struct access *a, const char *dir)
{
	struct digest d;
	char hex[DIGEST_HEX_MAX];

	digest_bytes(dir, strlen(dir), &d);
	pthread_mutex_lock(&a->lock);
	assert(!a->dir);
	a->dir = xstrdup(dir);
	a->audit = audit_new(dir);
	snprintf(a->cookie, sizeof(a->cookie), "cairn_session_%.8s", digest_hex(&d, hex));
	pthread_mutex_unlock(&a->lock);
}

struct audit *access_audit(struct access *a)
{
	struct audit *audit;

	pthread_mutex_lock(&a->lock);
	audit = a->audit;
	pthread_mutex_unlock(&a->lock);
	return audit;
}

/* Tokens. */

/* Call it with `lock` held. After an error no token of the file is valid. */
static void look_at_tokens(struct access *a)
{
	_cleanup_(freep) char *path = a->dir ? tokens_path(a->dir) : NULL;
	struct err err = { 0 };
	struct stat st = { 0 };

	if (!path || (lstat(path, &st) < 0 && !a->n_tokens && !a->broken))
		return;
	if (st.st_ino == a->seen.st_ino && st.st_size == a->seen.st_size &&
	    st.st_mtim.tv_sec == a->seen.st_mtim.tv_sec &&
	    st.st_mtim.tv_nsec == a->seen.st_mtim.tv_nsec && st.st_mode == a->seen.st_mode)
		return;
	a->seen = st;
	arena_free(a->arena);
	a->arena = arena_new();
	a->broken = tokens_read(a->dir, a->arena, &a->tokens, &a->n_tokens, &err) < 0;
	if (a->broken) {
		a->n_tokens = 0;
		event_err("tokens-broken", path, &err);
	}
}

static bool same(const struct digest *x, const struct digest *y)
{
	return CRYPTO_memcmp(x->b, y->b, DIGEST_BYTES) == 0;
}

/* Call it with `lock` held. */
static const struct token *find_token(struct access *a, const struct digest *d)
{
	const struct token *found = NULL;

	look_at_tokens(a);
	for (size_t i = 0; i < a->n_tokens; i++)
		if (same(&a->tokens[i].digest, d))
			found = &a->tokens[i];
	return found && (!found->expires_ns || found->expires_ns > clock_wall_ns()) ? found : NULL;
}

/* Who has this token; false: nobody. */
static bool check_token(struct access *a, const char *text, struct arena *arena, struct caller *ret)
{
	const struct token *t;
	struct digest d;

	digest_bytes(text, strlen(text), &d);
	ret->proof.digest = d;
	if (a->o.token && same(&d, &a->token)) {
		ret->user = USER_OF_TOKEN;
		ret->role = ROLE_ADMIN;
		return true;
	}
	pthread_mutex_lock(&a->lock);
	t = find_token(a, &d);
	if (t) {
		ret->user = arena_strdup(arena, t->name);
		ret->role = t->role;
	}
	pthread_mutex_unlock(&a->lock);
	return t != NULL;
}

void access_add_one_time(struct access *a, struct str *ret)
{
	int64_t now = clock_mono_ns();
	struct one_time *o = &a->once[0];
	unsigned char secret[32];

	random_bytes(secret, sizeof(secret));
	str_add(ret, "once_");
	base64_add_url(ret, secret, sizeof(secret));
	explicit_bzero(secret, sizeof(secret));
	pthread_mutex_lock(&a->lock);
	for (size_t i = 0; i < ONCE_MAX; i++)
		if (a->once[i].until_ns < o->until_ns)
			o = &a->once[i];
	digest_bytes(ret->s, ret->len, &o->digest);
	o->until_ns = now + ACCESS_ONCE_S * NS_PER_S;
	pthread_mutex_unlock(&a->lock);
}

/* Call it with `lock` held. */
static bool take_once(struct access *a, const struct digest *d)
{
	for (size_t i = 0; i < ONCE_MAX; i++)
		if (a->once[i].until_ns > clock_mono_ns() && same(&a->once[i].digest, d)) {
			a->once[i] = (struct one_time){ 0 };
			return true;
		}
	return false;
}

bool access_wants_token(struct access *a)
{
	bool any;

	pthread_mutex_lock(&a->lock);
	look_at_tokens(a);
	any = a->o.token || a->n_tokens;
	for (size_t i = 0; i < ONCE_MAX; i++)
		any |= a->once[i].until_ns > clock_mono_ns();
	pthread_mutex_unlock(&a->lock);
	return any;
}

/* Proxies. */

static bool in_net(const struct net *n, const unsigned char address[16])
{
	unsigned whole = n->bits / 8, rest = n->bits % 8;

	return memcmp(n->bytes, address, whole) == 0 &&
	       (!rest || ((n->bytes[whole] ^ address[whole]) >> (8 - rest)) == 0);
}

static bool is_trusted_proxy(struct access *a, const struct web_peer *p)
{
	unsigned char address[16];
	bool known = !p->is_unix && parse_address(p->name.address, address);

	for (size_t i = 0; i < a->o.n_proxies; i++)
		if (a->proxies[i].is_unix ? p->is_unix : known && in_net(&a->proxies[i], address))
			return true;
	return false;
}

/* Sessions. */

static bool cookie_value(struct access *a, struct web_exchange *x, struct digest *ret)
{
	const char *h = web_header(x, "Cookie");
	size_t n = strlen(a->cookie);

	for (; h && *h; h += strcspn(h, ";"), h += *h == ';') {
		h += strspn(h, " \t");
		if (strncmp(h, a->cookie, n) == 0 && h[n] == '=') {
			digest_bytes(h + n + 1, strcspn(h + n + 1, "; \t"), ret);
			return true;
		}
	}
	return false;
}

/* Call it with `lock` held. A session ends with its time, its silence, or its token. */
static const struct session *session_of(struct access *a, const struct digest *id)
{
	const struct session *s = sessions_find(a->sessions, id, clock_mono_ns());

	if (!s || !s->of_file || find_token(a, &s->token))
		return s;
	sessions_remove(a->sessions, id);
	return NULL;
}

static bool find_session(struct access *a, struct web_exchange *x, struct caller *ret)
{
	const struct session *s;
	struct digest id;

	if (!cookie_value(a, x, &id))
		return false;
	pthread_mutex_lock(&a->lock);
	s = session_of(a, &id);
	if (s) {
		ret->user = arena_strdup(x->arena, s->user);
		ret->role = s->role;
		ret->way = WAY_COOKIE;
		ret->expires_ns = s->expires_wall_ns;
		ret->proof.digest = id;
		sessions_used(a->sessions, &id, clock_mono_ns());
	}
	pthread_mutex_unlock(&a->lock);
	return s != NULL;
}

bool access_still(struct access *a, const struct access_proof *p)
{
	bool still = true;

	pthread_mutex_lock(&a->lock);
	if (p->way == WAY_BEARER)
		still = (a->o.token && same(&p->digest, &a->token)) || find_token(a, &p->digest);
	else if (p->way == WAY_COOKIE)
		still = session_of(a, &p->digest) != NULL;
	pthread_mutex_unlock(&a->lock);
	return still;
}

static void set_cookie(struct access *a, struct web_exchange *x, const char *value, int seconds)
{
	bool secure = web_is_secure(x) || (is_trusted_proxy(a, web_peer(x)) &&
					   str_eq(web_header(x, "X-Forwarded-Proto"), "https"));

	/* Strict: the browser sends it only with requests of our own pages. */
	web_add_header(x, "Set-Cookie",
		       arena_printf(x->arena,
				    "%s=%s; Path=/; HttpOnly; SameSite=Strict; Max-Age=%d%s",
				    a->cookie, value, seconds, secure ? "; Secure" : ""));
}

static void end_session(struct access *a, struct web_exchange *x)
{
	struct digest id;

	if (!cookie_value(a, x, &id))
		return;
	pthread_mutex_lock(&a->lock);
	sessions_remove(a->sessions, &id);
	pthread_mutex_unlock(&a->lock);
}

/* Call it with `lock` held. What a session keeps of its token; false: it is none. */
static bool begin_session(struct access *a, const char *token, struct session *ret)
{
	const struct token *t;

	digest_bytes(token, strlen(token), &ret->token);
	ret->role = ROLE_ADMIN;
	if (a->o.token && same(&ret->token, &a->token)) {
		snprintf(ret->user, sizeof(ret->user), "%s", USER_OF_TOKEN);
		return true;
	}
	if (take_once(a, &ret->token)) {
		snprintf(ret->user, sizeof(ret->user), "local");
		return true;
	}
	t = find_token(a, &ret->token);
	if (!t)
		return false;
	snprintf(ret->user, sizeof(ret->user), "%s", t->name);
	ret->role = t->role;
	ret->of_file = true;
	ret->expires_wall_ns = t->expires_ns;
	return true;
}

static void refuse_token(struct access *a, struct web_exchange *x)
{
	if (clients_wrong(a->clients, x->caller->address, clock_mono_ns())) {
		web_problem(x, 401, "that is not the token");
		return;
	}
	x->head.retry_after_s = 60;
	web_problem(x, 429, "too many wrong tokens: wait a minute");
}

bool access_sign_in(struct access *a, struct web_exchange *x, const char *token)
{
	int64_t latest = clock_wall_ns() + SESSION_S * NS_PER_S;
	_cleanup_(str_wipe) struct str id = { 0 };
	struct session s = { 0 };
	unsigned char secret[32];
	bool right;

	random_bytes(secret, sizeof(secret));
	base64_add_url(&id, secret, sizeof(secret));
	explicit_bzero(secret, sizeof(secret));
	digest_bytes(id.s, id.len, &s.id);
	pthread_mutex_lock(&a->lock);
	right = begin_session(a, token, &s);
	if (right) {
		if (!s.expires_wall_ns || s.expires_wall_ns > latest)
			s.expires_wall_ns = latest;
		sessions_add(a->sessions, &s, clock_mono_ns());
	}
	pthread_mutex_unlock(&a->lock);
	if (!right) {
		refuse_token(a, x);
		return false;
	}
	end_session(a, x); /* the one that the browser had */
	set_cookie(a, x, id.s, SESSION_S);
	x->caller->user = arena_strdup(x->arena, s.user);
	x->caller->role = s.role;
	x->caller->way = WAY_COOKIE;
	x->caller->expires_ns = s.expires_wall_ns;
	return true;
}

void access_sign_out(struct access *a, struct web_exchange *x)
{
	end_session(a, x);
	set_cookie(a, x, "", 0);
}

/* Who asks. */

/* A proxy adds the address of its own client at the end; what stands before may be anybody's. */
static const char *forwarded_for(struct web_exchange *x, const char *otherwise)
{
	const char *h = web_header(x, "X-Forwarded-For"), *comma = h ? strrchr(h, ',') : NULL;
	unsigned char address[16];

	if (!h)
		return otherwise;
	h = comma ? comma + 1 : h;
	h = arena_strndup(x->arena, h + strspn(h, " \t"), strcspn(h + strspn(h, " \t"), " \t"));
	return parse_address(h, address) ? h : otherwise;
}

static bool named_by_proxy(struct access *a, struct web_exchange *x, struct caller *ret)
{
	const char *user = a->o.identity_header ? web_header(x, a->o.identity_header) : NULL;

	if (!user || !*user)
		return false;
	ret->user = arena_strndup(x->arena, user, MIN(strlen(user), (size_t)200));
	ret->role = ROLE_VIEWER;
	ret->way = WAY_PROXY;
	for (size_t i = 0; i < a->o.n_identities; i++)
		if (!a->o.identities[i].user)
			ret->role = a->o.identities[i].role;
	for (size_t i = 0; i < a->o.n_identities; i++)
		if (str_eq(a->o.identities[i].user, ret->user))
			ret->role = a->o.identities[i].role;
	return true;
}

/* A user of this machine. Root isn't one for our purpose: proxies run as root. */
static bool is_local_user(struct web_exchange *x, const struct web_peer *p, struct caller *ret)
{
	uid_t uid;

	if (!p->local)
		return false;
	if (web_peer_uid(x, &uid) && uid == geteuid())
		ret->role = p->is_unix ? ROLE_ADMIN : ROLE_VIEWER;
	else if (p->is_unix)
		ret->role = ROLE_VIEWER; /* the socket's mode has let him in */
	else
		return false;
	ret->user = "local";
	ret->way = WAY_LOCAL;
	return true;
}

static void identify(struct access *a, struct web_exchange *x, const struct web_peer *p,
		     bool by_proxy)
{
	const char *h = web_header(x, "Authorization");
	struct caller *c = x->caller;

	if (h && *h) {
		c->wrong = strncasecmp(h, "Bearer ", 7) != 0 || !check_token(a, h + 7, x->arena, c);
		c->way = c->wrong ? WAY_NONE : WAY_BEARER;
		return;
	}
	if (find_session(a, x, c) || (by_proxy && named_by_proxy(a, x, c)) || by_proxy)
		return;
	is_local_user(x, p, c);
}

static bool names_loopback(const char *host)
{
	_cleanup_(freep) char *name = xstrdup(host);
	char *end = *name == '[' ? strchr(name, ']') : strrchr(name, ':');
	unsigned a, b, c, d;
	char rest;
	size_t n;

	if (end)
		end[*name == '['] = '\0';
	n = strlen(name);
	if (strcasecmp(name, "localhost") == 0 ||
	    (n > 10 && strcasecmp(name + n - 10, ".localhost") == 0) || str_eq(name, "[::1]"))
		return true;
	return sscanf(name, "%3u.%3u.%3u.%3u%c", &a, &b, &c, &d, &rest) == 4 && a == 127 &&
	       b < 256 && c < 256 && d < 256;
}

bool access_enter(struct access *a, struct web_exchange *x)
{
	const struct web_peer *p = web_peer(x);
	bool by_proxy = is_trusted_proxy(a, p);
	const char *host = web_header(x, "Host");

	x->caller = arena_alloc(x->arena, sizeof(*x->caller));
	*x->caller = (struct caller){ .address = arena_strdup(x->arena, p->name.address) };
	if (by_proxy)
		x->caller->address = forwarded_for(x, x->caller->address);
	if (p->local && !p->is_unix && !by_proxy && (!host || !names_loopback(host))) {
		web_problem(x, 421,
			    "this server answers to localhost and 127.0.0.1 only; its Host header "
			    "named something else");
		return false;
	}
	identify(a, x, p, by_proxy);
	x->caller->proof.way = x->caller->way;
	if (x->caller->way == WAY_LOCAL || (p->local && x->caller->way != WAY_NONE) ||
	    clients_ask(a->clients, x->caller->address, clock_mono_ns()))
		return true;
	x->head.retry_after_s = 1;
	web_problem(x, 429, "too many requests: at most %d a second", CLIENT_REQUESTS_S);
	return false;
}

/* What he may. */

bool access_may(struct access *a, struct web_exchange *x, enum role role)
{
	const struct caller *c = x->caller;

	if (!c->wrong && c->role >= role)
		return true;
	if (c->wrong)
		refuse_token(a, x);
	else if (c->role != ROLE_NONE && c->way != WAY_LOCAL)
		web_problem(x, 403, "this needs the role %s: %s has the role %s", role_name(role),
			    c->user, role_name(c->role));
	else if (!access_wants_token(a))
		web_problem(x, 403,
			    "this server was started without a token, so nothing can be changed "
			    "here: see `cairn serve --help`, --token-file and `cairn serve token`");
	else
		web_problem(x, 401, "this needs a token: Authorization: Bearer TOKEN");
	return false;
}

/* "https://host:1" names the same place as the Host header "host:1". */
static bool is_own_origin(struct access *a, struct web_exchange *x, const char *origin)
{
	bool by_proxy = is_trusted_proxy(a, web_peer(x));
	const char *host = web_header(x, "Host"), *forwarded = web_header(x, "X-Forwarded-Host");
	const char *rest = str_has_prefix(origin, "https://")  ? origin + 8
			   : str_has_prefix(origin, "http://") ? origin + 7
							       : NULL;

	if (!rest || (!by_proxy && web_is_secure(x) && !str_has_prefix(origin, "https://")))
		return false;
	return (host && strcasecmp(rest, host) == 0) ||
	       (by_proxy && forwarded && strcasecmp(rest, forwarded) == 0);
}

bool access_comes_from_here(struct access *a, struct web_exchange *x)
{
	const char *origin = web_header(x, "Origin"), *site = web_header(x, "Sec-Fetch-Site");
	enum way way = x->caller->way;

	/* To read, a page of another site must be let in by us (CORS), and none is. But what it
	 * embeds would count, and take time: browsers say where it comes from. */
	if (str_eq(x->method, "GET")) {
		if (!site || str_eq(site, "same-origin") || str_eq(site, "none") ||
		    str_eq(web_header(x, "Sec-Fetch-Mode"), "navigate"))
			return true;
		web_problem(x, 403, "pages of other sites may not use this API");
		return false;
	}
	if (origin ? is_own_origin(a, x, origin)
		   : (way != WAY_COOKIE && way != WAY_PROXY) || str_eq(site, "same-origin"))
		return true;
	web_problem(x, 403,
		    "this request was made by a page of another site, or doesn't say where it "
		    "comes from (the header Origin)");
	return false;
}

void access_log(struct access *a, const struct web_exchange *x)
{
	const struct caller *c = x->caller;

	if (c)
		audit_add(access_audit(a), &(struct audit_entry){ .who = c->user,
								  .role = role_name(c->role),
								  .way = way_name(c->way),
								  .address = c->address,
								  .method = x->method,
								  .path = x->path,
								  .status = x->status });
}
