/* engine/serve/access/access.h — who asks, and what he may.
 *
 * Ways in, in this order: a token (`Authorization: Bearer …`); a session (a cookie that a token was
 * exchanged for); a proxy that is trusted and names the user in a header; and the user of this
 * machine who runs the server, or any user whom the mode of a Unix socket lets in. A user of this
 * machine is known by his process (web/peer.h): at a loopback address he may read, at a Unix socket
 * everything. Another user of the machine needs a token.
 *
 * Against web pages of others: at a loopback address, the Host header must name loopback, so that
 * no page reaches us by a name of its own (DNS rebinding). No answer allows another origin. A
 * request that changes something and says that it comes from another origin is refused, and so is
 * one with a cookie or by a proxy that doesn't say where it comes from.
 *
 * Threads: any, for all functions.
 */
#ifndef CAIRN_SERVE_ACCESS_ACCESS_H
#define CAIRN_SERVE_ACCESS_ACCESS_H

#include "serve/access/audit.h"
#include "serve/access/sessions.h"
#include "serve/access/tokens.h"
#include "serve/web/web.h"

#define ACCESS_ONCE_S     600 /* a one-time token */
#define ACCESS_PROXIES    16
#define ACCESS_IDENTITIES 256

enum way { WAY_NONE, WAY_COOKIE, WAY_BEARER, WAY_PROXY, WAY_LOCAL };
const char *way_name(enum way w); /* NULL for WAY_NONE */

/* What shows that a caller may still do what he began. */
struct access_proof {
	enum way way;
	struct digest digest; /* of the token or the session */
};

struct caller {
	const char *user; /* or NULL */
	enum role role;
	enum way way;
	const char *address; /* of the client: behind a trusted proxy, the one that it tells */
	int64_t expires_ns;  /* of a session, else 0 */
	bool wrong;          /* gave a token that isn't one */
	struct access_proof proof;
};

struct access_identity {
	const char *user; /* NULL: everybody else */
	enum role role;
};

struct access_options {
	const char *token;          /* of an admin; or NULL */
	const char *const *proxies; /* "192.0.2.0/24", "::1" or "unix" */
	size_t n_proxies;
	const char *identity_header; /* of these proxies; or NULL */
	const struct access_identity *identities;
	size_t n_identities;
};

struct access;
/* ERR_USAGE: a proxy's address is none. The texts must live as long. */
int access_new(const struct access_options *o, struct access **ret, struct err *err);
void access_free(struct access *a); /* NULL is fine */
/* The state directory of the first project, which has the tokens and the audit log. Once. */
void access_set_dir(struct access *a, const char *dir);
/* A token that can be exchanged for an admin's session once, within ACCESS_ONCE_S; in `ret`. */
void access_add_one_time(struct access *a, struct str *ret);

/* For route(), first of all: sets x->caller. False: the request is refused, whatever it asks. */
bool access_enter(struct access *a, struct web_exchange *x);
/* Whether the caller has this role; false: the answer is set. */
bool access_may(struct access *a, struct web_exchange *x, enum role role);
/* The request doesn't come from a page of another site, as far as that matters. False: the answer
 * is set. */
bool access_comes_from_here(struct access *a, struct web_exchange *x);

/* For long answers: the token or session of the beginning is still valid. */
bool access_still(struct access *a, const struct access_proof *p);

/* Exchanges a token for a session: sets the cookie and x->caller. False: the answer is set. */
bool access_sign_in(struct access *a, struct web_exchange *x, const char *token);
void access_sign_out(struct access *a, struct web_exchange *x);
bool access_wants_token(struct access *a); /* somebody could sign in */

/* Adds an entry about an answered request. */
void access_log(struct access *a, const struct web_exchange *x);
struct audit *access_audit(struct access *a); /* NULL before access_set_dir() */

#endif
