/* engine/serve/access/sessions.h — who has signed in: sessions in memory, each with its two ends.
 *
 * A session ends SESSION_S after it was made, and SESSION_IDLE_S after it was used last. At most
 * SESSIONS_MAX are kept; a new one takes the place of the longest unused one. What else ends a
 * session, such as its token, is the caller's to know (access.c).
 *
 * Times are given: monotonic ones. Threads: one at a time; the caller locks.
 */
#ifndef CAIRN_SERVE_ACCESS_SESSIONS_H
#define CAIRN_SERVE_ACCESS_SESSIONS_H

#include "serve/access/tokens.h"

#define SESSIONS_MAX   1000
#define SESSION_IDLE_S (24 * 3600)
#define SESSION_S      (7 * 24 * 3600)

struct session {
	struct digest id, token; /* token: none if it was a one-time one */
	char user[TOKEN_NAME_MAX + 1];
	enum role role;
	bool of_file;            /* the token must still be in the file */
	int64_t expires_wall_ns; /* told to the user */
	int64_t made_ns, used_ns;
};

struct sessions;
struct sessions *sessions_new(void);
void sessions_free(struct sessions *s); /* NULL is fine */
void sessions_add(struct sessions *s, const struct session *made, int64_t now_ns);
/* NULL: there is none, or it has ended and is forgotten. Doesn't count as a use. Valid until the
 * next call. */
const struct session *sessions_find(struct sessions *s, const struct digest *id, int64_t now_ns);
void sessions_used(struct sessions *s, const struct digest *id, int64_t now_ns);
void sessions_remove(struct sessions *s, const struct digest *id); /* none is fine */

#endif
