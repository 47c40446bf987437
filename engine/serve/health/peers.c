#include "serve/health/peers.h"
#include "base/mem.h"
#include "base/text/str.h"

struct peer {
	char *name;
	int64_t beat_ns;      /* its last sign of life, by its own clock */
	int64_t changed_ns;   /* when we saw it change; monotonic */
	bool silent_at_start; /* it was too old already when we began */
};

struct peers {
	VEC(struct peer) v;
};

struct peers *peers_new(void)
{
	return xcalloc(1, sizeof(struct peers));
}

void peers_free(struct peers *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->v.n; i++)
		free(p->v.v[i].name);
	VEC_FREE(&p->v);
	free(p);
}

static struct peer *find(struct peers *p, const char *name)
{
	for (size_t i = 0; i < p->v.n; i++)
		if (str_eq(p->v.v[i].name, name))
			return &p->v.v[i];
	return NULL;
}

static struct peer *add(struct peers *p, const char *name, int64_t beat_ns, int64_t mono_ns)
{
	struct peer *one = VEC_ADD(&p->v);

	*one = (struct peer){ .name = xstrdup(name), .beat_ns = beat_ns, .changed_ns = mono_ns };
	return one;
}

int peers_look(struct peers *p, struct db *db, int64_t wall_ns, int64_t mono_ns, struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct server_row *rows;
	size_t n;

	if (record_servers(db, arena, &rows, &n, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		if (!find(p, rows[i].name))
			add(p, rows[i].name, rows[i].beat_ns, mono_ns)->silent_at_start =
				rows[i].beat_ns <= wall_ns - SERVER_SILENT_NS;
	return 0;
}

int peers_lives(struct peers *p, struct db *db, const char *server, int64_t mono_ns, bool *ret,
		struct err *err)
{
	int here = server_lives_here(server), r;
	struct peer *one;
	int64_t beat;

	if (here >= 0) {
		*ret = here;
		return 0;
	}
	r = record_server_heartbeat_of(db, server, &beat, err);
	if (r < 0)
		return -1;
	one = r > 0 ? find(p, server) : NULL;
	if (r > 0 && !one)
		one = add(p, server, beat, mono_ns);
	if (one && one->beat_ns != beat) {
		one->beat_ns = beat;
		one->changed_ns = mono_ns;
		one->silent_at_start = false;
	}
	*ret = !one ||
	       (beat >= 0 && !one->silent_at_start && mono_ns - one->changed_ns < SERVER_SILENT_NS);
	return 0;
}
