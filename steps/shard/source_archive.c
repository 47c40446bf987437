/* steps/shard/source_archive.c — archives and shards, read once from the front; bytes go to the
 * spool. */
#include <string.h>
#include "steps/shard/internal.h"
#include "steps/shards/members.h"

#define RATIO_FROM (64 * MIB)
#define BLOCK      (256 * KIB)

struct archive_reading {
	struct set *set;
	struct loose_list *list;
	const char *path;
	bool shards, alone;
	uint32_t run;    /* of shards; 0 of other archives */
	const char *key; /* of the member before, or of the current one */
	uint64_t done;
};

/* Files that Finder and other programs add. */
static bool is_hidden(const char *name)
{
	const char *slash = strrchr(name, '/');

	return (slash ? slash[1] : name[0]) == '.' || str_has_prefix(name, "__MACOSX/");
}

/* A member of more than one block goes to the spool while it is read. */
static int take_bytes(struct set *s, struct member_reader *m, const char *field, struct part *ret,
		      struct err *err)
{
	_cleanup_(str_deinit) struct str block = { 0 };
	size_t n, first = 0;
	int more;

	str_reserve(&block, BLOCK);
	while (first < BLOCK &&
	       (more = member_reader_read(m, block.s + first, BLOCK - first, &n, err)) != 0) {
		if (more < 0)
			return -1;
		first += n;
	}
	if (set_part(s, field, block.s, first, ret, err) < 0)
		return -1;
	while (first == BLOCK && (more = member_reader_read(m, block.s, BLOCK, &n, err)) != 0) {
		if (more < 0 || spool_add(&s->spool, block.s, n, err) < 0)
			return -1;
		ret->n += n;
	}
	return 0;
}

static int read_archive(struct archive_reading *r, struct member_reader *m, struct err *err)
{
	const char *name, *field;
	uint64_t offset;
	int n;

	while ((n = member_reader_next(m, &name, &offset, err)) != 0) {
		struct loose l = { 0 };

		if (n < 0 && (!member_reader_can_go_on(m) || set_bad(r->set, BAD_PATH, err) < 0))
			return -1;
		if (n < 0 || is_hidden(name) || (r->alone && !source_wants(r->set, name)))
			continue;
		n = loose_name(r->set, r->path, name, &l.key, &field, err);
		if (n < 0)
			return -1;
		if (n > 0) /* skipped */
			continue;
		if (r->shards && (!r->key || strcmp(r->key, l.key) != 0))
			r->run++;
		r->key = l.key;
		if (take_bytes(r->set, m, field, &l.part, err) < 0)
			return -1;
		l.part.run = r->run;
		VEC_PUSH(&r->list->all, l);
		step_progress(++r->done, 0, "members read");
	}
	return 0;
}

static int read_one(struct archive_reading *r, struct err *err)
{
	struct loose_list *l = r->list;
	size_t from = l->all.n; /* the archive's first member */
	const struct settings *w = &r->set->with;
	struct member_limits limits = { .member_max = w->max.file,
					.total_max = w->max.unpacked,
					.ratio_max = w->max.ratio,
					.ratio_from = RATIO_FROM,
					.zip = true };
	struct member_reader *m;
	int code;

	r->key = NULL;
	if (member_reader_open(r->path, &limits, &m, err) < 0)
		return set_bad(r->set, BAD_DAMAGED, err) < 0 ? -1 : 0;
	code = read_archive(r, m, err);
	member_reader_free(m);
	if (code < 0 && err->code == ERR_INVALID) {
		/* The sample in which the archive breaks off may lack members. */
		while (r->key && l->all.n > from && strcmp(l->all.v[l->all.n - 1].key, r->key) == 0)
			l->all.n--;
		code = set_bad(r->set, BAD_DAMAGED, err) < 0 ? -1 : 0;
	}
	return code;
}

int source_archives(struct set *s, const struct input *in, bool shards, struct err *err)
{
	struct loose_list list = { 0 };
	struct archive_reading r = {
		.set = s, .list = &list, .shards = shards, .alone = !in->is_dir
	};

	for (size_t i = 0; i < in->n; i++) {
		r.path = in->files[i].path;
		if (read_one(&r, err) < 0) {
			VEC_FREE(&list.all);
			return -1;
		}
	}
	return loose_add_all(s, &list, shards, err);
}
