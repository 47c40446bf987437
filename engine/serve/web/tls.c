/* engine/serve/web/tls.c — reading a certificate and its key, and lending them to handshakes.
 *
 * gnutls is loaded with libmicrohttpd (mhd.h), not linked. A handshake borrows certificate and key
 * until it ends, so the pair before the newest one is kept, too: it is freed by the next renewal,
 * RENEW_MIN_NS later at least, when no handshake from before lasts any more (WEB_REQUEST_S). */
#include "serve/web/tls.h"

#if __has_include(<gnutls/abstract.h>) && !defined(CAIRN_STATIC)

#include <gnutls/abstract.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "base/os/library.h"
#include "base/time/clock.h"

#define FILE_BYTES_MAX (256 * 1024)
#define CHAIN_MAX      16
#define RENEW_MIN_NS   (60 * NS_PER_S)

#define GNUTLS_FUNCTIONS(X)           \
	X(pcert_list_import_x509_raw) \
	X(pcert_deinit)               \
	X(privkey_init)               \
	X(privkey_deinit)             \
	X(privkey_import_x509_raw)    \
	X(pubkey_init)                \
	X(pubkey_deinit)              \
	X(pubkey_import_privkey)      \
	X(pubkey_get_key_id)          \
	X(strerror)

#define GNUTLS_MEMBER(name) typeof(&gnutls_##name) name;
static struct {
	GNUTLS_FUNCTIONS(GNUTLS_MEMBER)
} api;

struct pair {
	gnutls_pcert_st certs[CHAIN_MAX];
	unsigned n_certs;
	gnutls_privkey_t key;
};

static struct {
	const char *cert_path, *key_path;
	struct stat cert_seen, key_seen;
	int64_t at_ns;
	pthread_mutex_t lock; /* protects the pairs */
	struct pair *now, *before;
} tls = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int load(struct err *err)
{
	static const char *const names[] = { "libgnutls.so.30", NULL };
	static const struct library_function functions[] = {
#define GNUTLS_ROW(name) { "gnutls_" #name, offsetof(typeof(api), name), NULL },
		GNUTLS_FUNCTIONS(GNUTLS_ROW)
	};
	const char *missing;

	if (library_open(names, functions, ARRAY_LEN(functions), &api, &missing) == 0)
		return 0;
	return missing ? err_set(err, ERR_UNSUPPORTED, "libgnutls is too old: it lacks %s", missing)
		       : err_set(err, ERR_UNSUPPORTED,
				 "TLS needs libgnutls.so.30; install the package libgnutls30");
}

static void pair_free(struct pair *p)
{
	if (!p)
		return;
	for (unsigned i = 0; i < p->n_certs; i++)
		api.pcert_deinit(&p->certs[i]);
	if (p->key)
		api.privkey_deinit(p->key);
	free(p);
}

static int bad(const char *path, int code, struct err *err)
{
	return err_set(err, ERR_INVALID, "%s: %s", path, api.strerror(code));
}

/* A certificate that was renewed without its key would fail every handshake. */
static bool belong_together(const struct pair *p)
{
	unsigned char a[64], b[64];
	size_t n_a = sizeof(a), n_b = sizeof(b);
	gnutls_pubkey_t key;
	bool same;

	if (api.pubkey_init(&key) < 0)
		return false;
	same = api.pubkey_import_privkey(key, p->key, 0, 0) == 0 &&
	       api.pubkey_get_key_id(key, GNUTLS_KEYID_USE_SHA256, a, &n_a) == 0 &&
	       api.pubkey_get_key_id(p->certs[0].pubkey, GNUTLS_KEYID_USE_SHA256, b, &n_b) == 0 &&
	       n_a == n_b && memcmp(a, b, n_a) == 0;
	api.pubkey_deinit(key);
	return same;
}

static int read_pair(struct pair *p, struct err *err)
{
	_cleanup_(str_deinit) struct str cert = { 0 };
	_cleanup_(str_wipe) struct str key = { 0 };
	gnutls_datum_t d;
	int r;

	str_reserve(&key, FILE_BYTES_MAX); /* it isn't moved in memory while it is read */
	if (fs_read_file(tls.cert_path, FILE_BYTES_MAX, &cert, err) < 0 ||
	    fs_read_file(tls.key_path, FILE_BYTES_MAX, &key, err) < 0)
		return -1;
	d = (gnutls_datum_t){ (unsigned char *)cert.s, (unsigned)cert.len };
	p->n_certs = CHAIN_MAX;
	r = api.pcert_list_import_x509_raw(p->certs, &p->n_certs, &d, GNUTLS_X509_FMT_PEM, 0);
	if (r < 0) {
		p->n_certs = 0;
		return bad(tls.cert_path, r, err);
	}
	d = (gnutls_datum_t){ (unsigned char *)key.s, (unsigned)key.len };
	r = api.privkey_init(&p->key);
	if (r == 0)
		r = api.privkey_import_x509_raw(p->key, &d, GNUTLS_X509_FMT_PEM, NULL, 0);
	if (r < 0)
		return bad(tls.key_path, r, err);
	return belong_together(p) ? 0
				  : err_set(err, ERR_INVALID, "%s is not the key of %s",
					    tls.key_path, tls.cert_path);
}

static bool has_changed(const char *path, const struct stat *seen, struct stat *ret)
{
	return stat(path, ret) == 0 &&
	       (ret->st_ino != seen->st_ino || ret->st_size != seen->st_size ||
		ret->st_mtim.tv_sec != seen->st_mtim.tv_sec ||
		ret->st_mtim.tv_nsec != seen->st_mtim.tv_nsec);
}

int tls_reload(bool force, struct err *err)
{
	struct stat cert, key;
	struct pair *p, *old;
	int64_t now = clock_mono_ns();
	bool changed = has_changed(tls.cert_path, &tls.cert_seen, &cert);

	changed |= has_changed(tls.key_path, &tls.key_seen, &key);
	if (!changed && !force)
		return 0;
	p = xcalloc(1, sizeof(*p));
	if (read_pair(p, err) < 0) {
		pair_free(p);
		return -1;
	}
	if (tls.before && now - tls.at_ns < RENEW_MIN_NS) {
		pair_free(p);
		return 0; /* later: a handshake may still use the one that would go */
	}
	stat(tls.cert_path, &tls.cert_seen);
	stat(tls.key_path, &tls.key_seen);
	tls.at_ns = now;
	pthread_mutex_lock(&tls.lock);
	old = tls.before;
	tls.before = tls.now;
	tls.now = p;
	pthread_mutex_unlock(&tls.lock);
	pair_free(old);
	return 1;
}

int tls_open(const char *cert, const char *key, struct err *err)
{
	if (load(err) < 0)
		return -1;
	tls.cert_path = cert;
	tls.key_path = key;
	return tls_reload(true, err) < 0 ? -1 : 0;
}

static int retrieve(gnutls_session_t session, const gnutls_datum_t *cas, int n_cas,
		    const gnutls_pk_algorithm_t *algorithms, int n_algorithms,
		    gnutls_pcert_st **certs, unsigned *n_certs, gnutls_privkey_t *key)
{
	pthread_mutex_lock(&tls.lock);
	*certs = tls.now->certs;
	*n_certs = tls.now->n_certs;
	*key = tls.now->key;
	pthread_mutex_unlock(&tls.lock);
	return 0;
}

void *tls_callback(void)
{
	return (void *)(uintptr_t)retrieve;
}

#else

int tls_open(const char *cert, const char *key, struct err *err)
{
	return err_set(err, ERR_UNSUPPORTED,
		       "this program was built without TLS: let a proxy in front of it have the "
		       "certificate, and see --trust-proxy");
}

int tls_reload(bool force, struct err *err)
{
	return 0;
}

void *tls_callback(void)
{
	return NULL;
}

#endif
