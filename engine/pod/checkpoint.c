/* engine/pod/checkpoint.c — the checkpoint of an attempt in a pod: restored from the store before
 * the program, saved there while it runs and after it; and the sidecar's state file.
 *
 * With several nodes, each restores what all of them left, and saves only what it made itself: an
 * entry that another node had saved in the same form isn't its own (subtract()). When two nodes
 * have an entry of one name, the lower index wins, or of an elastic gang the newer one. With one
 * node, a save first hashes without copying, because most saves find nothing new.
 *
 * The state file (pod_state_write()) holds what a restarted sidecar needs: epoch, sequence, the
 * last saved tree, and the attempts that this one continues.
 *
 * Invariants: `epoch` is one more than the newest in the store, so a later attempt supersedes an
 * earlier one; a superseded attempt saves nothing any more. A directory that changes while it is
 * read isn't saved, but tried again later. The directory is the program's, so it is read beneath
 * descriptors.
 *
 * Threads: one at a time for each slot, as pod.c says. Not here: choosing when to save (pod.c),
 * ordering checkpoints in the store (storage/checkpoint.c).
 */
#include "storage/checkpoint.h"
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include "base/os/fs.h"
#include "base/os/machine.h"
#include "base/text/json.h"
#include "base/time/clock.h"
#include "pod/internal.h"

#define STATE     "cairn-pod.json"
#define STATE_MAX (1 * MIB)
#define DEPTH_MAX 200

void pod_checkpoint_deinit(struct pod_checkpoint *c)
{
	free(c->attempts);
	free(c->continues);
	VEC_FREE(&c->others);
}

/* Restoring. */

/* Moves the entries of `from` into `to`; existing entries stay. */
static int merge_dir(int from, int to, int depth, struct err *err)
{
	_cleanup_(closedirp) DIR *d = fs_list(dup(from));
	struct dirent *e;
	int r = 0;

	if (!d)
		return err_errno(err, "cannot read what was laid out");
	while (r == 0 && (r = fs_next(d, "that was laid out", &e, err)) == 1) {
		_cleanup_(fd_closep) int sub_from = -1, sub_to = -1;

		r = 0;
		if (renameat2(from, e->d_name, to, e->d_name, RENAME_NOREPLACE) == 0)
			continue;
		if (errno != EEXIST)
			r = err_errno(err, "cannot lay out %s", e->d_name);
		sub_from = openat(from, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		sub_to = sub_from < 0 ? -1
				      : openat(to, e->d_name,
					       O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (r == 0 && sub_to >= 0 && depth == DEPTH_MAX)
			r = err_set(err, ERR_TOO_LARGE,
				    "cannot lay out %s: it is nested too deeply", e->d_name);
		else if (r == 0 && sub_to >= 0)
			r = merge_dir(sub_from, sub_to, depth + 1, err);
	}
	return r;
}

int pod_lay_over(struct pod *p, struct pod_slot *s, const struct content_id *tree, int to,
		 struct err *err)
{
	static const char temp[] = ".cairn-laying-out";
	_cleanup_(fd_closep) int from = -1;

	if (content_materialise_at(p->store, tree, CONTENT_COPY_FOR_ALL, s->w_fd, temp, err) < 0)
		return -1;
	from = openat(s->w_fd, temp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (from < 0)
		return err_errno(err, "cannot lay out");
	if (merge_dir(from, to, 0, err) < 0)
		return -1;
	return fs_remove_tree_at(s->w_fd, temp, err);
}

/* This attempt continues those of the newest checkpoint. After a replacement of its pod, it is
 * already in that list. */
static void follow(struct pod_checkpoint *c, const struct checkpoint *newest, uint64_t attempt_id)
{
	_cleanup_(freep) char *mine = xasprintf("%llu", (unsigned long long)attempt_id);
	_cleanup_(freep) char *earlier =
		xstrdup(newest->tree.kind != CONTENT_NONE ? newest->attempts : "");
	char *last = strrchr(earlier, ' ');

	if (strcmp(last ? last + 1 : earlier, mine) == 0)
		*(last ? last : earlier) = '\0';
	c->continues = *earlier ? xstrdup(earlier) : NULL;
	c->attempts = *earlier ? xasprintf("%s %s", earlier, mine) : xstrdup(mine);
	c->epoch = newest->epoch + 1;
}

static int by_time(const void *x, const void *y, void *arg)
{
	const struct checkpoint *v = arg;
	const unsigned *a = x, *b = y;

	if (v[*a].saved_ns != v[*b].saved_ns)
		return v[*a].saved_ns > v[*b].saved_ns ? -1 : 1;
	return (*a > *b) - (*a < *b);
}

/* The nodes in the order in which their entries win. In an elastic gang each node keeps what all
 * have, and the first one needn't be the last that saved: so the newest wins. */
static unsigned *order_of(const struct runner_attempt *a, struct checkpoint *v, unsigned n)
{
	unsigned *order = xcalloc(n, sizeof(*order));

	for (unsigned i = 0; i < n; i++)
		order[i] = i;
	if (a->on.gang.min_nodes)
		qsort_r(order, n, sizeof(*order), by_time, v);
	return order;
}

int pod_checkpoint_restore(struct pod *p, struct pod_slot *s, struct err *err)
{
	struct checkpoint newest = { 0 };
	unsigned n = MAX(s->a->on.gang.nodes, 1u);
	_cleanup_(freep) struct checkpoint *v = xcalloc(n, sizeof(*v));
	_cleanup_(freep) unsigned *order = NULL;
	_cleanup_(fd_closep) int to = -1, place = -1;

	assert(!s->ck.attempts);
	if (checkpoint_newest(p->store, s->a->key, n, p->arena, v, err) < 0 ||
	    (place = fs_make_beneath(s->w_fd, s->a->checkpoint_path, 0777, err)) < 0)
		return -1;
	to = fs_open_beneath(s->w_fd, s->a->checkpoint_path, O_RDONLY | O_DIRECTORY, false);
	if (to < 0)
		return err_errno(err, "cannot put the checkpoint at %s", s->a->checkpoint_path);
	order = order_of(s->a, v, n);
	for (unsigned k = 0; k < n; k++) {
		unsigned i = order[k];

		if (v[i].tree.kind == CONTENT_NONE)
			continue;
		if (newest.tree.kind == CONTENT_NONE || v[i].epoch > newest.epoch)
			newest = v[i];
		if (i == p->o.index)
			s->ck.saved = v[i].tree;
		else
			VEC_PUSH(&s->ck.others, v[i].tree);
		if (pod_lay_over(p, s, &v[i].tree, to, err) < 0)
			return err_wrap(err, "laying out the checkpoint");
	}
	follow(&s->ck, &newest, s->a->id);
	return 0;
}

/* The node's own entries. */

static bool same_entry(const struct tree_entry *a, const struct tree_entry *b)
{
	if (!b || a->kind != b->kind)
		return false;
	return a->kind == TREE_SYMLINK ? a->target_len == b->target_len &&
						 memcmp(a->target, b->target, a->target_len) == 0
				       : content_id_eq(&a->id, &b->id);
}

/* `tree` without the entries that `other` has in the same form. */
static int subtract(struct store *s, const struct content_id *tree, const struct content_id *other,
		    int depth, struct content_id *ret, struct err *err)
{
	_cleanup_(tree_freep) struct tree *mine = NULL, *theirs = NULL;
	struct tree_builder *b;
	int r = 0;

	if (tree_load(s, tree, &mine, err) < 0 || tree_load(s, other, &theirs, err) < 0)
		return -1;
	b = tree_builder_new();
	for (size_t i = 0; i < tree_len(mine) && r == 0; i++) {
		struct tree_entry kept = *tree_at(mine, i);
		const struct tree_entry *over = tree_find(theirs, kept.name, kept.name_len);

		if (same_entry(&kept, over))
			continue;
		if (kept.kind == TREE_DIR && over && over->kind == TREE_DIR && depth < DEPTH_MAX)
			r = subtract(s, &kept.id, &over->id, depth + 1, &kept.id, err);
		if (r == 0)
			r = tree_builder_add(b, &kept, err);
	}
	if (r == 0)
		r = tree_builder_store(b, s, ret, err);
	tree_builder_free(b);
	return r;
}

/* Saving. */

/* 1: it changed during the read. */
static int snapshot(struct pod *p, struct pod_slot *s, int flags, struct content_id *ret,
		    struct err *err)
{
	const struct content_put_options o = { .flags = CONTENT_PUT_BENEATH | flags };
	struct err e = { 0 };

	if (content_put_at(p->store, s->w_fd, s->a->checkpoint_path, &o, ret, &e) == 0)
		return ret->kind == CONTENT_TREE
			       ? 0
			       : err_set(err, ERR_INVALID, "%s isn't a directory any more",
					 s->a->checkpoint_path);
	return e.code == ERR_CHANGED ? 1 : err_pass(err, &e);
}

static int save(struct pod *p, struct pod_slot *s, const struct content_id *own, struct err *err)
{
	struct clock *clock = clock_system();
	char node[MACHINE_NAME_BYTES];
	struct checkpoint c = { .key = *s->a->key,
				.index = p->o.index,
				.epoch = s->ck.epoch,
				.sequence = s->ck.sequence + 1,
				.tree = *own,
				.attempts = s->ck.attempts,
				.run_id = s->a->run_id,
				.task = s->a->task,
				.node = machine_name(node),
				.saved_ns = clock->wall_ns(clock) };
	int r;

	r = checkpoint_save(p->store, &c, err);
	if (r < 0)
		return -1;
	s->ck.superseded = r > 0;
	s->ck.sequence++;
	s->ck.saved = *own;
	return pod_state_write(p, err);
}

int pod_checkpoint_save(struct pod *p, struct pod_slot *s, struct err *err)
{
	_cleanup_(tree_freep) struct tree *tree = NULL;
	struct content_id own;
	int r;

	assert(s->a->checkpoint_path);
	if (s->ck.superseded || !s->ck.attempts)
		return 0;
	/* Most saves find nothing new: this check costs no copy. */
	if (!s->ck.others.n) {
		r = snapshot(p, s, CONTENT_PUT_HASH_ONLY, &own, err);
		if (r != 0 || content_id_eq(&own, &s->ck.saved))
			return r;
	}
	r = snapshot(p, s, 0, &own, err);
	for (size_t i = 0; i < s->ck.others.n && r == 0; i++)
		r = subtract(p->store, &own, &s->ck.others.v[i], 0, &own, err);
	if (r != 0 || content_id_eq(&own, &s->ck.saved))
		return r;
	if (s->ck.saved.kind == CONTENT_NONE && tree_load(p->store, &own, &tree, NULL) == 0 &&
	    tree_len(tree) == 0)
		return 0;
	return save(p, s, &own, err);
}

/* The state file. */

static json_t *id_text(const struct content_id *id)
{
	struct str text = { 0 };
	json_t *j;

	pod_content_write(id, &text);
	j = json_string(text.s);
	str_deinit(&text);
	return j;
}

int pod_state_write(struct pod *p, struct err *err)
{
	_cleanup_(freep) char *path = fs_join(p->o.state_dir, STATE);
	_cleanup_(json_decrefp) json_t *top = json_object();
	json_t *list = json_array();

	for (size_t i = 0; i < p->n; i++) {
		const struct pod_checkpoint *c = &p->slots[i].ck;
		json_t *o = json_object(), *others = json_array();

		json_array_append_new(list, o);
		for (size_t k = 0; k < c->others.n; k++)
			json_array_append_new(others, id_text(&c->others.v[k]));
		json_object_set_new(o, "others", others);
		if (!c->attempts)
			continue;
		json_object_set_new(o, "attempts", json_string(c->attempts));
		json_object_set_new(o, "epoch", json_integer((json_int_t)c->epoch));
		json_object_set_new(o, "sequence", json_integer((json_int_t)c->sequence));
		if (c->continues)
			json_object_set_new(o, "continues", json_string(c->continues));
		if (c->saved.kind != CONTENT_NONE)
			json_object_set_new(o, "saved", id_text(&c->saved));
	}
	json_object_set_new(top, "spec", json_string(p->spec));
	json_object_set_new(top, "slots", list);
	return json_write_file(path, top, false, err);
}

static int read_slot(const json_t *o, struct pod_checkpoint *c, struct err *err)
{
	const char *attempts, *continues, *saved;
	uint64_t epoch, sequence;
	json_t *others;

	if (json_get_str_opt(o, "attempts", NULL, &attempts, err) < 0 || !attempts)
		return 0;
	if (json_get_str_opt(o, "continues", NULL, &continues, err) < 0 ||
	    json_get_uint(o, "epoch", &epoch, err) < 0 ||
	    json_get_uint(o, "sequence", &sequence, err) < 0 ||
	    json_get_str_opt(o, "saved", NULL, &saved, err) < 0 ||
	    json_get_array(o, "others", &others, err) < 0)
		return -1;
	c->attempts = xstrdup(attempts);
	c->continues = continues ? xstrdup(continues) : NULL;
	c->epoch = epoch;
	c->sequence = sequence;
	if (saved && pod_content_read(saved, &c->saved, err) < 0)
		return -1;
	for (size_t i = 0; i < json_array_size(others); i++) {
		const char *text = json_string_value(json_array_get(others, i));
		struct content_id id;

		if (!text || pod_content_read(text, &id, err) < 0)
			return -1;
		VEC_PUSH(&c->others, id);
	}
	return 0;
}

int pod_state_read(struct pod *p, struct err *err)
{
	_cleanup_(freep) char *path = fs_join(p->o.state_dir, STATE);
	_cleanup_(json_decrefp) json_t *top = NULL;
	const char *spec;
	json_t *list;

	if (json_read_file(path, STATE_MAX, &top, err) < 0 ||
	    json_get_str(top, "spec", &spec, err) < 0 ||
	    json_get_array(top, "slots", &list, err) < 0)
		return -1;
	if (!str_eq(spec, p->spec) || json_array_size(list) != p->n)
		return err_set(err, ERR_INVALID, "%s is another pod's", path);
	for (size_t i = 0; i < p->n; i++)
		if (read_slot(json_array_get(list, i), &p->slots[i].ck, err) < 0)
			return err_wrap(err, "%s", path);
	return 0;
}
