#include "serve/access/sessions.h"
#include <openssl/crypto.h>
#include <stdlib.h>
#include "base/mem.h"
#include "base/time/clock.h"

struct sessions {
	VEC(struct session) v;
};

struct sessions *sessions_new(void)
{
	return xcalloc(1, sizeof(struct sessions));
}

void sessions_free(struct sessions *s)
{
	if (!s)
		return;
	VEC_FREE(&s->v);
	free(s);
}

void sessions_add(struct sessions *s, const struct session *made, int64_t now_ns)
{
	struct session *place;

	if (s->v.n < SESSIONS_MAX) {
		place = VEC_ADD(&s->v);
	} else {
		place = &s->v.v[0];
		for (size_t i = 0; i < s->v.n; i++)
			if (s->v.v[i].used_ns < place->used_ns)
				place = &s->v.v[i];
	}
	*place = *made;
	place->made_ns = place->used_ns = now_ns;
}

/* The time of a comparison doesn't depend on the secret. */
static struct session *find(struct sessions *s, const struct digest *id)
{
	for (size_t i = 0; i < s->v.n; i++)
		if (CRYPTO_memcmp(s->v.v[i].id.b, id->b, DIGEST_BYTES) == 0)
			return &s->v.v[i];
	return NULL;
}

const struct session *sessions_find(struct sessions *s, const struct digest *id, int64_t now_ns)
{
	struct session *found = find(s, id);

	if (!found || (now_ns - found->made_ns < SESSION_S * NS_PER_S &&
		       now_ns - found->used_ns < SESSION_IDLE_S * NS_PER_S))
		return found;
	*found = s->v.v[--s->v.n];
	return NULL;
}

void sessions_used(struct sessions *s, const struct digest *id, int64_t now_ns)
{
	struct session *found = find(s, id);

	if (found)
		found->used_ns = now_ns;
}

void sessions_remove(struct sessions *s, const struct digest *id)
{
	struct session *found = find(s, id);

	if (found)
		*found = s->v.v[--s->v.n];
}
