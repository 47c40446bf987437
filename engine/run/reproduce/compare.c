/* engine/run/reproduce/compare.c — the comparison of two contents.
 *
 * struct walk is a comparison in progress: the current path, and the result so far. Trees are
 * merged by name in the order of raw bytes, as listings are sorted. Only note() adds a finding to
 * the result: it counts each one, and keeps path and detail of the first of the worst kind.
 *
 * Files with the same digest are equal and not read. Others are verified, then read in pieces for
 * the first byte that differs, then passed to `cairn-steps normalise` as open descriptors. That
 * program decodes hostile bytes: it gets an environment of its own, a time limit by size, and a
 * limit on what it may unpack. After a first difference, it gets at most NORMALISE_AFTER_DIFFERENCE
 * more files.
 *
 * Invariants: a normaliser can turn DIFFERENT only into NORMALISED, and only by a well-formed
 * answer; when it crashes, hangs or is missing, the bytes decide. It never hides a difference in
 * kind or in the executable bit. Missing or damaged content is a finding (note_unreadable()).
 *
 * Threads: the loop's, where there is one, since it starts programs. Not here: metrics and
 * tolerances, what a difference means for the run (report.c).
 */
#include "run/reproduce/compare.h"
#include <errno.h>
#include <string.h>
#include <sys/statvfs.h>
#include "base/os/fs.h"
#include "base/os/process/command.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "storage/origin/reference.h"

#define PIECE     (1 * MIB)
#define DEPTH_MAX 200
/* After a first difference, only so many more files are normalised; others count as different. */
#define NORMALISE_AFTER_DIFFERENCE 100
#define NORMALISE_NS               (120 * NS_PER_S)
#define NORMALISE_BYTES_A_SECOND   (8 * MIB)
#define UNPACKED_MAX               (8 * GIB)
#define ANSWER_MAX                 (64 * KIB)

struct walk {
	const struct comparer *c;
	struct compare_result *ret;
	struct str path; /* of the file that is being compared */
	unsigned depth, asked;
};

const char *compare_verdict_name(enum compare_verdict v)
{
	static const char *const names[] = {
		[VERDICT_IDENTICAL] = "identical",
		[VERDICT_NORMALISED] = "identical after normalisation",
		[VERDICT_TOLERATED] = "within tolerance",
		[VERDICT_DIFFERENT] = "different",
		[VERDICT_EXTRA] = "extra",
		[VERDICT_MISSING] = "missing",
		[VERDICT_UNKNOWN] = "not comparable",
	};

	return (size_t)v < ARRAY_LEN(names) ? names[v] : "?";
}

/* Findings. */

struct finding {
	enum compare_verdict verdict;
	const char *normaliser, *detail;
	bool has_offset;
	uint64_t offset;
};

/* Reports the first finding of the worst kind: a file that differs hides a normalised one, and a
 * missing file hides both. A file that only one side has makes the whole tree different. */
static void note(struct walk *w, const struct finding *f)
{
	struct compare_result *r = w->ret;
	enum compare_verdict v = f->verdict == VERDICT_EXTRA || f->verdict == VERDICT_MISSING
					 ? VERDICT_DIFFERENT
					 : f->verdict;

	r->n_normalised += f->verdict == VERDICT_NORMALISED;
	r->n_different += f->verdict == VERDICT_DIFFERENT;
	r->n_missing += f->verdict == VERDICT_MISSING;
	r->n_extra += f->verdict == VERDICT_EXTRA;
	if (v <= r->verdict)
		return;
	r->verdict = v;
	r->path = arena_strndup(w->c->arena, w->path.len ? w->path.s : "", w->path.len);
	r->normaliser = f->normaliser;
	r->detail = f->detail;
	r->has_offset = f->has_offset;
	r->offset = f->offset;
}

static void note_plain(struct walk *w, enum compare_verdict v, const char *detail)
{
	note(w, &(struct finding){ .verdict = v, .detail = detail });
}

static const char *id_text(struct walk *w, const struct content_id *id)
{
	char hex[DIGEST_HEX_MAX];

	return arena_printf(w->c->arena, "sha256:%.16s", digest_hex(&id->digest, hex));
}

/* Content that is missing or doesn't match its id: notes it and returns 1. Any other error stops
 * the comparison. */
static int note_unreadable(struct walk *w, const struct content_id *id, struct err *why,
			   struct err *err)
{
	if (why->code == ERR_NOT_FOUND)
		note_plain(w, VERDICT_UNKNOWN,
			   arena_printf(w->c->arena, "%s is not in the store", id_text(w, id)));
	else if (why->code == ERR_CORRUPT)
		note_plain(w, VERDICT_UNKNOWN,
			   arena_printf(w->c->arena, "%s is damaged in the store", id_text(w, id)));
	else
		return err_pass(err, why);
	return 1;
}

/* One file. */

static int read_piece(int fd, uint8_t *to, uint64_t at, size_t *ret_n, struct err *err)
{
	ssize_t n = fs_read_at(fd, to, PIECE, (off_t)at);

	*ret_n = n > 0 ? (size_t)n : 0;
	return n < 0 ? err_errno(err, "reading the store") : 0;
}

/* The offset of the first byte where two files differ. */
static int first_difference(const int fds[2], uint64_t *ret, struct err *err)
{
	_cleanup_(freep) uint8_t *a = xmalloc(PIECE), *b = xmalloc(PIECE);
	size_t n_a, n_b, i = 0;

	for (uint64_t at = 0;; at += n_a) {
		if (read_piece(fds[0], a, at, &n_a, err) < 0 ||
		    read_piece(fds[1], b, at, &n_b, err) < 0)
			return -1;
		if (n_a == n_b && n_a && memcmp(a, b, n_a) == 0)
			continue;
		while (i < MIN(n_a, n_b) && a[i] == b[i])
			i++;
		*ret = at + i;
		return 0;
	}
}

static const char *copy(struct walk *w, const char *s)
{
	return s && *s ? arena_strdup(w->c->arena, s) : NULL;
}

/* Reads the normaliser's line. A malformed line counts as no answer. */
static void read_answer(struct walk *w, const struct str *out, struct finding *f)
{
	const char *verdict = NULL, *normaliser = NULL, *member = NULL, *detail = NULL;
	json_t *j = NULL;

	if (json_parse("normalise", out->s ? out->s : "", out->len, &j, NULL) < 0 ||
	    !json_is_object(j) || json_get_str(j, "verdict", &verdict, NULL) < 0 ||
	    json_get_str_opt(j, "normaliser", NULL, &normaliser, NULL) < 0 ||
	    json_get_str_opt(j, "member", NULL, &member, NULL) < 0 ||
	    json_get_str_opt(j, "detail", NULL, &detail, NULL) < 0) {
		json_decref(j);
		return;
	}
	if (str_eq(verdict, "same") && normaliser && *normaliser) {
		f->verdict = VERDICT_NORMALISED;
		f->normaliser = copy(w, normaliser);
		f->detail = copy(w, detail);
	} else if (str_eq(verdict, "different")) {
		f->detail =
			member ? arena_printf(w->c->arena, "%s: %s: %s",
					      normaliser ? normaliser : "?", member,
					      detail ? detail : "differs")
			       : arena_printf(w->c->arena, "%s: %s", normaliser ? normaliser : "?",
					      detail ? detail : "differs");
	}
	json_decref(j);
}

/* The limit on what the normaliser may unpack: half of the free space of its temporary
 * directory. */
static const char *room(struct walk *w)
{
	struct statvfs v;
	uint64_t free_bytes = w->c->temp_dir && statvfs(w->c->temp_dir, &v) == 0
				      ? (uint64_t)v.f_bavail * v.f_frsize
				      : UNPACKED_MAX;

	return arena_printf(w->c->arena, "%llu",
			    (unsigned long long)MIN(free_bytes / 2, UNPACKED_MAX));
}

/* When the normaliser crashes, hangs or is missing, the bytes decide. */
static void normalise(struct walk *w, const int fds[2], uint64_t bytes, struct finding *f)
{
	const char *program = w->c->steps_program ? w->c->steps_program : "cairn-steps";
	const char *const argv[] = { program,           "normalise",       "--max", room(w),
				     "/proc/self/fd/3", "/proc/self/fd/4", NULL };
	_cleanup_(freep) char *temp =
		xasprintf("TMPDIR=%s", w->c->temp_dir ? w->c->temp_dir : "/tmp");
	const char *libraries = getenv("LD_LIBRARY_PATH");
	_cleanup_(freep) char *library_path =
		libraries ? xasprintf("LD_LIBRARY_PATH=%s", libraries) : NULL;
	const char *const env[] = { temp, "LC_ALL=C.UTF-8", library_path, NULL };
	/* Its input is hostile: it gets none of our environment. */
	struct command c = { .argv = argv,
			     .env = env,
			     .only_env = true,
			     .fds = { fds[0], fds[1] },
			     .n_fds = 2,
			     .max_bytes = ANSWER_MAX,
			     .on_loop = true };
	_cleanup_(str_deinit) struct str out = { 0 };
	int status;

	c.timeout_ns = NORMALISE_NS +
		       (int64_t)(MIN(bytes, 1000 * GIB) / NORMALISE_BYTES_A_SECOND) * NS_PER_S;
	if (w->ret->verdict >= VERDICT_DIFFERENT && w->asked >= NORMALISE_AFTER_DIFFERENCE)
		return;
	w->asked += w->ret->verdict >= VERDICT_DIFFERENT;
	if (command_output(&c, &out, &status, NULL) == 0 && status == 0)
		read_answer(w, &out, f);
}

static int compare_open(struct walk *w, const int fds[2], const struct content_id *was,
			const struct content_id *is, struct err *err)
{
	struct finding f = { .verdict = VERDICT_DIFFERENT, .has_offset = true };

	if (first_difference(fds, &f.offset, err) < 0)
		return -1;
	normalise(w, fds, was->size_bytes + is->size_bytes, &f);
	if (f.verdict == VERDICT_DIFFERENT && !f.detail &&
	    f.offset >= MIN(was->size_bytes, is->size_bytes))
		f.detail = arena_printf(w->c->arena, "%llu bytes → %llu bytes",
					(unsigned long long)was->size_bytes,
					(unsigned long long)is->size_bytes);
	note(w, &f);
	return 0;
}

/* A difference in the executable bit is never normalised away. */
static int compare_files(struct walk *w, const struct content_id *was, const struct content_id *is,
			 struct err *err)
{
	const struct content_id *ids[2] = { was, is };
	int fds[2] = { -1, -1 }, r = 0;

	w->ret->n_files++;
	if (was->kind != is->kind)
		note_plain(
			w, VERDICT_DIFFERENT,
			arena_printf(w->c->arena, "%s%s",
				     was->kind == CONTENT_EXECUTABLE
					     ? "was executable, isn't any more"
					     : "is executable, was not",
				     content_same_bytes(was, is) ? "" : "; its bytes differ, too"));
	if (was->kind != is->kind || content_same_bytes(was, is))
		return 0;
	for (int i = 0; i < 2 && r == 0; i++) {
		struct err why = { 0 };

		/* Damaged bytes prove nothing. */
		if (content_verify(w->c->store, ids[i], &why) < 0 ||
		    content_open(w->c->store, ids[i], &fds[i], &why) < 0)
			r = note_unreadable(w, ids[i], &why, err);
	}
	if (r == 0)
		r = compare_open(w, fds, was, is, err);
	for (int i = 0; i < 2; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	return r < 0 ? -1 : 0;
}

/* Trees. */

static size_t push(struct walk *w, const struct tree_entry *e)
{
	size_t len = w->path.len;

	if (len)
		str_addc(&w->path, '/');
	str_addn(&w->path, e->name, e->name_len);
	return len;
}

static void pop(struct walk *w, size_t len)
{
	w->path.len = len;
	if (w->path.s)
		w->path.s[len] = '\0';
}

/* A directory that only one side has: counts each file in it. An unreadable one counts as one. */
static int count_alone(struct walk *w, const struct tree_entry *e, enum compare_verdict v,
		       struct err *err)
{
	const char *detail =
		v == VERDICT_EXTRA ? "only the new one has it" : "only the old one has it";
	_cleanup_(tree_freep) struct tree *t = NULL;
	size_t len = push(w, e);
	int r = 0;

	if (e->kind != TREE_DIR || w->depth >= DEPTH_MAX ||
	    tree_load(w->c->store, &e->id, &t, NULL) < 0 || tree_len(t) == 0) {
		w->ret->n_files++;
		note_plain(w, v, detail);
		pop(w, len);
		return 0;
	}
	w->depth++;
	for (size_t i = 0; r == 0 && i < tree_len(t); i++)
		r = count_alone(w, tree_at(t, i), v, err);
	w->depth--;
	pop(w, len);
	return r;
}

static int compare_trees(struct walk *w, const struct content_id *was, const struct content_id *is,
			 struct err *err);

static bool is_file(const struct tree_entry *e)
{
	return e->kind == TREE_FILE || e->kind == TREE_EXECUTABLE;
}

static const char *kind_text(const struct tree_entry *e)
{
	return e->kind == TREE_DIR         ? "a directory"
	       : e->kind == TREE_REFERENCE ? "a reference to an object outside"
	       : e->kind == TREE_SYMLINK   ? "a symbolic link"
					   : "a file";
}

static const char *shown(struct walk *w, const char *s, size_t n)
{
	_cleanup_(str_deinit) struct str out = { 0 };

	text_add_printable(&out, s, MIN(n, 200));
	return arena_strndup(w->c->arena, out.len ? out.s : "", out.len);
}

/* Objects in outside storage aren't fetched: only URI, version and size are compared. */
static void compare_references(struct walk *w, const struct reference *a, const struct reference *b)
{
	w->ret->n_files++;
	if (!str_eq(a->uri, b->uri))
		note_plain(w, VERDICT_DIFFERENT,
			   arena_printf(w->c->arena, "%s → %s", shown(w, a->uri, strlen(a->uri)),
					shown(w, b->uri, strlen(b->uri))));
	else if (!str_eq(a->version, b->version) || a->size_bytes != b->size_bytes)
		note_plain(w, VERDICT_DIFFERENT,
			   arena_printf(w->c->arena, "version of %s: %s → %s",
					shown(w, a->uri, strlen(a->uri)),
					shown(w, a->version, strlen(a->version)),
					shown(w, b->version, strlen(b->version))));
	else if (!str_eq(a->options, b->options))
		note_plain(w, VERDICT_DIFFERENT,
			   arena_printf(w->c->arena, "options of %s",
					shown(w, a->uri, strlen(a->uri))));
}

static int compare_reference_ids(struct walk *w, const struct content_id *was,
				 const struct content_id *is, struct err *err)
{
	struct reference a, b;
	struct err why = { 0 };

	if (content_id_eq(was, is)) {
		w->ret->n_files++;
		return 0;
	}
	if (reference_load(w->c->store, was, w->c->arena, &a, &why) < 0)
		return note_unreadable(w, was, &why, err) < 0 ? -1 : 0;
	if (reference_load(w->c->store, is, w->c->arena, &b, &why) < 0)
		return note_unreadable(w, is, &why, err) < 0 ? -1 : 0;
	compare_references(w, &a, &b);
	return 0;
}

static int compare_entries(struct walk *w, const struct tree_entry *a, const struct tree_entry *b,
			   struct err *err)
{
	size_t len = push(w, a);
	int r = 0;

	if (a->kind == TREE_DIR && b->kind == TREE_DIR) {
		r = compare_trees(w, &a->id, &b->id, err);
	} else if (a->kind == TREE_SYMLINK && b->kind == TREE_SYMLINK) {
		w->ret->n_files++;
		if (a->target_len != b->target_len ||
		    memcmp(a->target, b->target, a->target_len) != 0)
			note_plain(w, VERDICT_DIFFERENT,
				   arena_printf(w->c->arena, "link to %s → %s",
						shown(w, a->target, a->target_len),
						shown(w, b->target, b->target_len)));
	} else if (a->kind == TREE_REFERENCE && b->kind == TREE_REFERENCE) {
		compare_references(w, a->ref, b->ref);
	} else if (!is_file(a) || !is_file(b)) {
		w->ret->n_files++;
		note_plain(w, VERDICT_DIFFERENT,
			   arena_printf(w->c->arena, "was %s, is %s", kind_text(a), kind_text(b)));
	} else {
		r = compare_files(w, &a->id, &b->id, err);
	}
	pop(w, len);
	return r;
}

/* The order in which listings are sorted: raw bytes. */
static int order(const struct tree_entry *a, const struct tree_entry *b)
{
	int r = a && b ? memcmp(a->name, b->name, MIN(a->name_len, b->name_len)) : a ? -1 : 1;

	return r || !a || !b ? r : a->name_len < b->name_len ? -1 : a->name_len > b->name_len;
}

/* Counts the files in a tree, only so that n_files is right. */
static uint64_t count_files(struct walk *w, const struct content_id *id, unsigned depth)
{
	_cleanup_(tree_freep) struct tree *t = NULL;
	uint64_t n = 0;

	if (depth > DEPTH_MAX || tree_load(w->c->store, id, &t, NULL) < 0)
		return 0;
	for (size_t i = 0; i < tree_len(t); i++)
		n += tree_at(t, i)->kind == TREE_DIR ? count_files(w, &tree_at(t, i)->id, depth + 1)
						     : 1;
	return n;
}

static int compare_trees(struct walk *w, const struct content_id *was, const struct content_id *is,
			 struct err *err)
{
	_cleanup_(tree_freep) struct tree *a = NULL, *b = NULL;
	struct err why = { 0 };
	size_t i = 0, k = 0;
	int r = 0;

	if (content_id_eq(was, is)) {
		w->ret->n_files += count_files(w, was, w->depth);
		return 0;
	}
	if (w->depth >= DEPTH_MAX)
		return err_set(err, ERR_TOO_LARGE, "directories nested deeper than %d", DEPTH_MAX);
	if (tree_load(w->c->store, was, &a, &why) < 0 || tree_load(w->c->store, is, &b, &why) < 0)
		return note_unreadable(w, a ? is : was, &why, err) < 0 ? -1 : 0;
	w->depth++;
	while (r == 0 && (i < tree_len(a) || k < tree_len(b))) {
		const struct tree_entry *ea = i < tree_len(a) ? tree_at(a, i) : NULL,
					*eb = k < tree_len(b) ? tree_at(b, k) : NULL;
		int o = order(ea, eb);

		r = o < 0   ? count_alone(w, ea, VERDICT_MISSING, err)
		    : o > 0 ? count_alone(w, eb, VERDICT_EXTRA, err)
			    : compare_entries(w, ea, eb, err);
		i += o <= 0;
		k += o >= 0;
	}

	w->depth--;
	return r;
}

int compare_contents(const struct comparer *c, const struct content_id *was,
		     const struct content_id *is, struct compare_result *ret, struct err *err)
{
	struct walk w = { .c = c, .ret = ret };
	int r = 0;

	*ret = (struct compare_result){ .verdict = VERDICT_IDENTICAL };
	if (was->kind == CONTENT_NONE || is->kind == CONTENT_NONE) {
		ret->verdict = was->kind  ? VERDICT_MISSING
			       : is->kind ? VERDICT_EXTRA
					  : VERDICT_IDENTICAL;
		ret->detail = was->kind  ? "only the old one has it"
			      : is->kind ? "only the new one has it"
					 : NULL;
		return 0;
	}
	if (content_is_file(was) && content_is_file(is))
		r = compare_files(&w, was, is, err);
	else if (was->kind != is->kind)
		note_plain(&w, VERDICT_DIFFERENT,
			   arena_printf(c->arena, "was a %s, is a %s", content_kind_name(was->kind),
					content_kind_name(is->kind)));
	else if (was->kind == CONTENT_REFERENCE)
		r = compare_reference_ids(&w, was, is, err);
	else
		r = compare_trees(&w, was, is, err);
	str_deinit(&w.path);
	return r;
}
