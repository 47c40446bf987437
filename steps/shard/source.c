/* steps/shard/source.c — the kind of an input, and which of its files count.
 *
 * source_read() lists the input, finds its kind unless `source` gives it, keeps the files of that
 * kind, and calls one reader: source_files(), source_archives(), source_tables() or source_idx().
 * Each of them passes samples to set_add().
 *
 * Names tell kinds (kind_by_name()); a single file whose name doesn't is checked for IDX. A
 * directory has the kind that all its files have. IDX wins whatever else is there, index.json and
 * similar files don't count, and any other mixture is plain files.
 *
 * `include` and `exclude` apply to paths below the directory (source_wants()); for a single
 * archive, source_archive.c applies them to members. files_fd is opened here for plain files, and
 * by source_table.c for the files that a table names. One thread.
 */
#include <fcntl.h>
#include <fnmatch.h>
#include <string.h>
#include <sys/stat.h>
#include "base/os/fs.h"
#include "base/text/text.h"
#include "steps/shard/internal.h"

enum source {
	SOURCE_AUTO,
	SOURCE_FILES,
	SOURCE_ARCHIVE,
	SOURCE_SHARDS,
	SOURCE_CSV,
	SOURCE_JSONL,
	SOURCE_IDX,
	SOURCE_FACTS,
	SOURCE_LAST = SOURCE_FACTS
};

static bool matches(const json_t *patterns, const char *path)
{
	for (size_t i = 0; i < json_array_size(patterns); i++)
		if (fnmatch(json_string_value(json_array_get(patterns, i)), path, 0) == 0)
			return true;
	return false;
}

bool source_wants(const struct set *s, const char *path)
{
	return (!s->with.include || matches(s->with.include, path)) &&
	       !matches(s->with.exclude, path);
}

/* Kinds, by names. */

static enum source kind_by_name(const char *path)
{
	static const struct {
		const char *suffix;
		enum source kind;
	} kinds[] = {
		{ ".zip", SOURCE_ARCHIVE }, { ".csv", SOURCE_CSV },      { ".tsv", SOURCE_CSV },
		{ ".jsonl", SOURCE_JSONL }, { ".ndjson", SOURCE_JSONL },
	};
	static const char *const facts[] = { "index.json", "stats.json", "metrics.json" };
	const char *base = fs_basename(path), *idx = strstr(base, "idx");

	if (shard_is_name(base))
		return SOURCE_SHARDS;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (str_has_suffix(base, kinds[i].suffix))
			return kinds[i].kind;
	if (idx && idx[3] >= '1' && idx[3] <= '8' && idx[4] == '-' &&
	    (str_has_suffix(base, "byte") || str_has_suffix(base, "byte.gz")))
		return SOURCE_IDX;
	return text_is_one_of(base, facts, ARRAY_LEN(facts)) ? SOURCE_FACTS : SOURCE_FILES;
}

/* A directory has the kind that all its files have. IDX files are unmistakable, whatever else is
 * there; any other mixture is plain files. */
static enum source kind_of_dir(const struct input *in)
{
	size_t n[SOURCE_LAST + 1] = { 0 }, kinds = 0;
	enum source last = SOURCE_FILES;

	for (size_t i = 0; i < in->n; i++)
		n[kind_by_name(in->files[i].name)]++;
	if (n[SOURCE_IDX])
		return SOURCE_IDX;
	if (n[SOURCE_ARCHIVE] && n[SOURCE_SHARDS]) {
		n[SOURCE_ARCHIVE] += n[SOURCE_SHARDS];
		n[SOURCE_SHARDS] = 0;
	}
	for (unsigned k = SOURCE_FILES; k < SOURCE_FACTS; k++)
		if (n[k]) {
			kinds++;
			last = (enum source)k;
		}
	return kinds == 1 && (last != SOURCE_FILES || !n[SOURCE_FACTS]) ? last : SOURCE_FILES;
}

static int kind_of_file(const char *path, enum source *ret, struct err *err)
{
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	unsigned char head[4] = { 1 };

	*ret = kind_by_name(path);
	if (*ret == SOURCE_SHARDS)
		*ret = SOURCE_ARCHIVE; /* one tar: its members may stand in any order */
	if (*ret != SOURCE_FILES && *ret != SOURCE_FACTS)
		return 0;
	if (fd < 0)
		return err_errno(err, "cannot read %s", path);
	if (read(fd, head, sizeof(head)) == sizeof(head) && !head[0] && !head[1] && head[3] &&
	    head[3] <= 8)
		*ret = SOURCE_IDX;
	else
		return err_set(err, ERR_INVALID,
			       "%s: the kind of data isn't recognised; set `source` to csv, jsonl, "
			       "idx, archive, shards or files",
			       path);
	return 0;
}

/* Reading. */

static int list_dir(struct set *s, struct input *in, struct err *err)
{
	struct walk_list list = { 0 };
	int r = walk_directory(in->root, s->arena, &list, err);

	in->files = arena_alloc(s->arena, list.files.n * sizeof(*in->files));
	for (size_t i = 0; i < list.files.n && r == 0; i++) {
		const struct walk_file *f = &list.files.v[i];

		if (source_wants(s, f->path))
			in->files[in->n++] =
				(struct input_file){ .name = f->path, .link = f->link };
	}
	VEC_FREE(&list.files);
	if (r == 0 && (list.hidden || list.links))
		step_note("%s: %llu hidden entries and %llu links to directories passed over",
			  in->root, (unsigned long long)list.hidden,
			  (unsigned long long)list.links);
	return r;
}

static int open_input(struct set *s, struct input *in, enum source *kind, struct err *err)
{
	struct stat st;

	if (stat(in->root, &st) < 0)
		return err_errno(err, "cannot read %s", in->root);
	in->is_dir = S_ISDIR(st.st_mode);
	if (in->is_dir) {
		if (list_dir(s, in, err) < 0)
			return -1;
		*kind = *kind ? *kind : kind_of_dir(in);
		s->files_root = in->root;
		s->files_fd = *kind == SOURCE_FILES
				      ? open(in->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
				      : -1;
		return *kind == SOURCE_FILES && s->files_fd < 0
			       ? err_errno(err, "cannot read %s", in->root)
			       : 0;
	}
	if (*kind == SOURCE_FILES)
		return err_set(err, ERR_INVALID, "%s is a file: `source: files` takes a directory",
			       in->root);
	in->files = arena_alloc(s->arena, sizeof(*in->files));
	in->files[0].name = in->root;
	in->n = 1;
	return *kind ? 0 : kind_of_file(in->root, kind, err);
}

static bool is_of(enum source kind, const struct input_file *f)
{
	enum source k = kind_by_name(f->name);

	return k == kind || (kind == SOURCE_ARCHIVE && k == SOURCE_SHARDS);
}

/* Keeps only the files of the directory's kind, if names tell it: a set of shards also has
 * index.json, a table the files that it names. */
static void keep_kind(struct set *s, struct input *in, enum source kind)
{
	size_t n = 0, named = 0;

	for (size_t i = 0; i < in->n; i++)
		named += in->is_dir && is_of(kind, &in->files[i]);
	for (size_t i = 0; i < in->n; i++) {
		struct input_file f = in->files[i];

		if (named && !is_of(kind, &f))
			continue;
		f.path = in->is_dir ? arena_printf(s->arena, "%s%s%s", in->root,
						   str_has_suffix(in->root, "/") ? "" : "/", f.name)
				    : in->root;
		in->files[n++] = f;
	}
	in->n = n;
}

int source_read(struct set *s, struct err *err)
{
	struct input in = { .root = step_input(s->args, "data")->path };
	enum source kind = (enum source)s->with.source;

	if (open_input(s, &in, &kind, err) < 0)
		return -1;
	if (kind != SOURCE_FILES)
		keep_kind(s, &in, kind);
	switch (kind) {
	case SOURCE_ARCHIVE:
	case SOURCE_SHARDS:
		return source_archives(s, &in, kind == SOURCE_SHARDS, err);
	case SOURCE_CSV:
	case SOURCE_JSONL:
		return source_tables(s, &in, kind == SOURCE_JSONL, err);
	case SOURCE_IDX:
		return source_idx(s, &in, err);
	default:
		return source_files(s, &in, err);
	}
}
