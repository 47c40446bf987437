/* storage/export.c — exports content: makes the list of files and the mark, then writes to a bucket
 * or a directory.
 *
 * In a bucket objects are overwritten one by one, so two files say what readers can rely on. The
 * mark says: these objects are there, complete. The pending note says: these names may be there,
 * and some must be deleted. The order:
 *
 * 1. Read both. The export fails if either can't be read or isn't ours. Only "not found" counts as
 * none.
 * 2. List the objects there. An object isn't sent again if the mark names it with the wanted bytes,
 * and its size and tag (ETag, generation) haven't changed since the mark was written. Nothing else
 * is trusted.
 * 3. Write the note, with the names from the old mark, from the old note, and the new names.
 * 4. Delete the mark: from here on readers trust nothing there.
 * 5. Send. List again: each object must be there with its size, and its tag goes into the mark.
 * 6. Write the mark. Delete what only the note names. Delete the note.
 *
 * Wherever this stops, there is either no mark or a true one, and the mark or the note names every
 * object of ours. So the next export can remove the leftovers. When step 2 finds everything, only
 * the mark is written.
 *
 * On this machine a directory is made beside the place and renamed when it is complete. For a
 * single file, the old mark is deleted before the file is replaced, with the same note. What is
 * there is replaced only if it has the bytes that its mark lists. A place in the project is reached
 * from the open directory that holds it (`at`), so that links made meanwhile lead nowhere. A call
 * uses one thread. The caller ensures that only one export at a time writes to a place.
 */
#include "storage/export.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include "base/os/fs.h"
#include "base/os/machine.h"
#include "base/text/json.h"
#include "storage/origin/internal.h"

#define MARK_MAX  (256 * MIB)
#define BATCH     64          /* objects sent at once; each needs a descriptor */
#define SMALL_MAX (128 * KIB) /* held in memory: 8 MiB in all */

struct file {
	const char *path; /* below the destination; "" for a single file */
	struct content_id id;
	struct digest sha256; /* of all bytes, also for a blob of many parts */
	bool there;
	/* In a bucket: what the last listing showed. */
	bool seen;
	const char *tag; /* differs between versions of the object; NULL: the store has no tags */
	uint64_t size_there;
};

struct link {
	const char *path, *target;
};

struct export
{
	struct store *s;
	const struct export_request *request;
	struct arena *arena;
	VEC(struct file) files;
	VEC(struct link) links;
	char *place;
	const char *at; /* on this machine: the path that reaches the place */
	struct export_done done;
};

/* The list of files. */

static int add_listing(struct export *x, const char *dir, const struct content_id *id, int depth,
		       struct err *err)
{
	_cleanup_(tree_freep) struct tree *t = NULL;

	if (depth > CONTENT_DEPTH_MAX)
		return err_set(err, ERR_TOO_LARGE, "directories are nested deeper than %d levels",
			       CONTENT_DEPTH_MAX);
	if (tree_load(x->s, id, &t, err) < 0)
		return -1;
	for (size_t i = 0; i < tree_len(t); i++) {
		const struct tree_entry *e = tree_at(t, i);
		const char *path = arena_printf(x->arena, "%s%s%s", dir, *dir ? "/" : "", e->name);

		if (e->kind == TREE_DIR && add_listing(x, path, &e->id, depth + 1, err) < 0)
			return -1;
		if (e->kind == TREE_REFERENCE)
			return err_set(err, ERR_INVALID,
				       "`%s` is a reference, which isn't exported", path);
		if (!*dir && (str_eq(e->name, EXPORT_MARK) || str_eq(e->name, EXPORT_PENDING)))
			return err_set(err, ERR_INVALID,
				       "the output has a file `%s`, which is where the export "
				       "keeps its own list of files; give it another name",
				       path);
		if (e->kind == TREE_SYMLINK)
			VEC_PUSH(&x->links,
				 ((struct link){ path, arena_strdup(x->arena, e->target) }));
		if (e->kind == TREE_FILE || e->kind == TREE_EXECUTABLE)
			VEC_PUSH(&x->files, ((struct file){ .path = path, .id = e->id }));
	}
	return 0;
}

/* Reads and checks the whole file, so that only bytes that match the id go out. Small files are
 * checked later, in memory, when they are sent. */
static int hash_file(struct export *x, struct file *f, struct err *err)
{
	_cleanup_(fd_closep) int fd = -1;
	struct blob_hasher h;
	struct digester *d;
	struct digest id;
	char buf[65536];
	ssize_t n;

	f->sha256 = f->id.digest; /* a blob of one part: its digest is the SHA-256 of its bytes */
	if (f->id.size_bytes <= SMALL_MAX ||
	    (f->id.size_bytes <= CONTENT_PART_BYTES && store_is_verified(x->s, &f->id.digest)))
		return 0;
	if (content_open(x->s, &f->id, &fd, err) < 0)
		return -1;
	d = digester_new();
	blob_hasher_init(&h, f->id.size_bytes);
	while ((n = read(fd, buf, sizeof(buf))) > 0 || (n < 0 && errno == EINTR))
		if (n > 0) {
			digester_update(d, buf, (size_t)n);
			blob_hasher_update(&h, buf, (size_t)n);
		}
	digester_final(d, &f->sha256);
	digester_free(d);
	blob_hasher_final(&h, &id);
	if (n < 0)
		return err_errno(err, "cannot read from the store");
	if (!digest_eq(&id, &f->id.digest))
		return store_damaged(x->s, STORE_BLOB, &f->id.digest, err);
	store_note_verified(x->s, &f->id.digest);
	return 0;
}

static int collect(struct export *x, struct err *err)
{
	const struct content_id *id = &x->request->id;

	if (store_bring(x->s, id, 1, BRING_ALL, err) < 0)
		return -1;
	if (id->kind == CONTENT_TREE && add_listing(x, "", id, 0, err) < 0)
		return -1;
	if (content_is_file(id))
		VEC_PUSH(&x->files, ((struct file){ .path = "", .id = *id }));
	for (size_t i = 0; i < x->files.n; i++) {
		if (hash_file(x, &x->files.v[i], err) < 0)
			return -1;
		x->done.bytes += x->files.v[i].id.size_bytes;
	}
	x->done.files = x->files.n;
	return 0;
}

/* The mark. */

static const char *name_of(const struct export *x, const struct file *f)
{
	return *f->path ? f->path : fs_basename(x->place);
}

static json_t *mark_file(const struct export *x, const struct file *f)
{
	char hex[DIGEST_HEX_MAX];
	const char *name = name_of(x, f);
	json_t *j = json_pack("{s:o, s:I, s:s}", "name", json_name(name, strlen(name)), "bytes",
			      (json_int_t)f->id.size_bytes, "sha256", digest_hex(&f->sha256, hex));

	if (f->id.kind == CONTENT_EXECUTABLE)
		json_object_set_new(j, "executable", json_true());
	if (f->tag)
		json_object_set_new(j, "tag", json_string(f->tag));
	return j;
}

static void make_mark(const struct export *x, struct str *out)
{
	const struct export_request *a = x->request;
	char hex[DIGEST_HEX_MAX];
	json_t *files = json_array(), *links = json_array(), *mark;

	for (size_t i = 0; i < x->files.n; i++)
		json_array_append_new(files, mark_file(x, &x->files.v[i]));
	for (size_t i = 0; i < x->links.n; i++)
		json_array_append_new(
			links,
			json_pack("{s:o, s:o}", "name",
				  json_name(x->links.v[i].path, strlen(x->links.v[i].path)),
				  "target",
				  json_name(x->links.v[i].target, strlen(x->links.v[i].target))));
	mark = json_pack("{s:i, s:s, s:s, s:s, s:s, s:s+, s:I, s:o, s:o}", "cairn_export", 1,
			 "pipeline", a->pipeline, "task", a->task, "output", a->output, "run",
			 a->run, "content", "sha256:", digest_hex(&a->id.digest, hex),
			 "exported_ns", (json_int_t)a->now_ns, "files", files, "links", links);
	if (mark)
		json_add_canonical(out, mark);
	str_addc(out, '\n');
	json_decref(mark);
}

static bool is_note(const json_t *j, const char *format, const char *list)
{
	int64_t version;

	return json_is_object(j) && json_get_int(j, format, &version, NULL) == 0 && version == 1 &&
	       json_is_array(json_object_get(j, list));
}

static bool is_mark(const json_t *j)
{
	return is_note(j, "cairn_export", "files");
}

static bool is_pending(const json_t *j)
{
	return is_note(j, "cairn_export_pending", "names");
}

/* A bucket. */

struct target {
	struct bucket *bucket;
	const char *key, *mark, *pending; /* key: of the single file, or with a slash at its end */
	struct map *by_name;              /* names in the mark: struct file * */
	struct map *named;                /* all names that we wrote or may have written */
};

static const char *key_of(const struct export *x, const struct target *t, const char *path)
{
	return arena_printf(x->arena, "%s%s", t->key, path);
}

static int find_target(struct export *x, struct target *t, struct err *err)
{
	bool tree = x->request->id.kind == CONTENT_TREE;

	if (origin_locate(x->s, x->place, "", x->arena, &t->bucket, &t->key, err) < 0)
		return -1;
	if (!*t->key)
		return err_set(err, ERR_INVALID, "a name in the bucket is missing");
	if (tree)
		t->key = arena_printf(x->arena, "%s/", t->key);
	t->mark = arena_printf(x->arena, "%s%s", t->key, tree ? EXPORT_MARK : EXPORT_MARK_SUFFIX);
	t->pending = arena_printf(x->arena, "%s%s", t->key,
				  tree ? EXPORT_PENDING : EXPORT_PENDING_SUFFIX);
	for (size_t i = 0; i < x->files.n; i++)
		*map_slot_str(t->by_name, name_of(x, &x->files.v[i])) = &x->files.v[i];
	return 0;
}

/* *ret NULL: there is none. Fails if the object isn't ours. */
static int read_note(const struct export *x, const struct target *t, const char *key,
		     bool (*is_ours)(const json_t *j), json_t **ret, struct err *err)
{
	struct bucket_get g = { .key = key, .size = UINT64_MAX, .fd = -1, .max_bytes = MARK_MAX },
			  *v = &g;
	json_t *j = NULL;
	int r = bucket_get_many(t->bucket, &v, 1, err);

	*ret = NULL;
	if (r == 0 && g.result == 0 &&
	    (json_parse("the mark", g.body.s ? g.body.s : "", g.body.len, &j, NULL) < 0 ||
	     !is_ours(j)))
		r = err_set(err, ERR_EXISTS,
			    "%s is there already, and this cairn didn't write it; remove it, or "
			    "export to another place",
			    key);
	else if (r == 0 && g.result < 0 && g.err.code != ERR_NOT_FOUND)
		r = err_set(err, g.err.code, "looking for what was exported to %s before: %s",
			    x->place, g.err.msg);
	str_deinit(&g.body);
	if (r == 0)
		*ret = j;
	else
		json_decref(j);
	return r;
}

/* Others can change notes, so a name that isn't below the destination is skipped. */
static bool note_name(const json_t *text, struct str *name)
{
	str_reset(name);
	return json_is_string(text) && json_name_decode(name, json_string_value(text), NULL) == 0 &&
	       name->s && *name->s && strlen(name->s) == name->len &&
	       !str_eq(name->s, EXPORT_MARK) && !str_eq(name->s, EXPORT_PENDING);
}

static void note_seen(const struct export *x, struct file *f, const struct bucket_object *o)
{
	f->seen = true;
	f->size_there = o->size;
	f->tag = *o->etag || *o->version ? arena_printf(x->arena, "%s %s", o->etag, o->version)
					 : NULL;
}

struct looking {
	struct export *x;
	const struct target *t;
};

static int note_object(void *arg, const struct bucket_object *o)
{
	const struct looking *at = arg;
	struct file *f = map_get_str(at->t->by_name, o->key + strlen(at->t->key));

	if (f)
		note_seen(at->x, f, o);
	return 0;
}

/* Sets each file's current size and tag in the bucket. */
static int look(struct export *x, const struct target *t, struct err *err)
{
	struct looking at = { x, t };
	_cleanup_(str_deinit) struct str strings = { 0 };
	struct bucket_object o;
	struct err e = { 0 };

	for (size_t i = 0; i < x->files.n; i++)
		x->files.v[i].seen = false;
	if (x->request->id.kind == CONTENT_TREE)
		return bucket_list(t->bucket, t->key, NULL, 0, note_object, &at, err) < 0 ? -1 : 0;
	if (bucket_head(t->bucket, t->key, &o, &strings, &e) < 0)
		return e.code == ERR_NOT_FOUND ? 0 : err_pass(err, &e);
	note_seen(x, &x->files.v[0], &o);
	return 0;
}

/* Compares the mark with the listing to find files that needn't be sent, and collects every name
 * that may be there. */
static void compare_old(struct target *t, const json_t *mark, const json_t *pending)
{
	_cleanup_(str_deinit) struct str name = { 0 };
	json_t *j;
	size_t i;

	json_array_foreach(json_object_get(pending, "names"), i, j) if (note_name(j, &name))
		map_slot_str(t->named, name.s);
	json_array_foreach(json_object_get(mark, "files"), i, j)
	{
		const char *sha256, *tag;
		struct digest d;
		struct file *f;

		if (!note_name(json_object_get(j, "name"), &name))
			continue;
		map_slot_str(t->named, name.s);
		f = map_get_str(t->by_name, name.s);
		if (!f || !f->seen || !f->tag || json_get_str(j, "sha256", &sha256, NULL) < 0 ||
		    json_get_str(j, "tag", &tag, NULL) < 0 || digest_parse(sha256, &d, NULL) < 0)
			continue;
		f->there = digest_eq(&d, &f->sha256) && str_eq(tag, f->tag) &&
			   f->size_there == f->id.size_bytes;
	}
}

static int put_note(const struct target *t, const char *key, const struct str *text,
		    struct err *err)
{
	struct bucket_put p = { .key = key,
				.fd = -1,
				.content_type = "application/json",
				.bytes = text->s,
				.size = text->len };

	if (text->len > MARK_MAX)
		return err_set(err, ERR_TOO_LARGE,
			       "the export has too many files for one list of them");
	return bucket_put(t->bucket, &p, err) < 0 ? -1 : 0;
}

static void make_pending(const struct map *named, struct str *out)
{
	json_t *names = json_array(), *j;
	const void *name;
	size_t len;

	for (size_t i = 0; i < map_len(named); i++) {
		map_at(named, i, &name, &len);
		json_array_append_new(names, json_name(name, len));
	}
	j = json_pack("{s:i, s:o}", "cairn_export_pending", 1, "names", names);
	if (j)
		json_add_canonical(out, j);
	str_addc(out, '\n');
	json_decref(j);
}

static int begin_put(struct export *x, const struct target *t, const struct file *f,
		     struct bucket_put *p, struct str *bytes, struct err *err)
{
	*p = (struct bucket_put){ .key = key_of(x, t, f->path),
				  .fd = -1,
				  .size = f->id.size_bytes };
	if (f->id.size_bytes > SMALL_MAX)
		return content_open(x->s, &f->id, &p->fd, err);
	if (content_read(x->s, &f->id, SMALL_MAX, bytes, err) < 0)
		return -1;
	p->bytes = bytes->s ? bytes->s : "";
	return 0;
}

static int put_batch(struct export *x, const struct target *t, struct file *const *files, size_t n,
		     struct err *err)
{
	struct bucket_put puts[BATCH], *v[BATCH] = { NULL };
	struct str bytes[BATCH] = { 0 };
	size_t begun = 0;
	int r = 0;

	for (; begun < n && r == 0; begun++) {
		v[begun] = &puts[begun];
		r = begin_put(x, t, files[begun], &puts[begun], &bytes[begun], err);
	}
	if (r == 0)
		r = bucket_put_many(t->bucket, v, n, err);
	for (size_t i = 0; i < begun; i++) {
		if (r == 0 && puts[i].result < 0)
			r = err_pass(err, &puts[i].err);
		if (puts[i].fd >= 0)
			close(puts[i].fd);
		str_deinit(&bytes[i]);
	}
	x->done.sent += r == 0 ? n : 0;
	return r;
}

static int put_files(struct export *x, const struct target *t, struct err *err)
{
	struct file *batch[BATCH];
	size_t n = 0;

	for (size_t i = 0; i < x->files.n; i++) {
		if (!x->files.v[i].there)
			batch[n++] = &x->files.v[i];
		if (n && (n == BATCH || i + 1 == x->files.n)) {
			if (put_batch(x, t, batch, n, err) < 0)
				return -1;
			n = 0;
		}
	}
	return 0;
}

static int put_mark(struct export *x, const struct target *t, struct err *err)
{
	_cleanup_(str_deinit) struct str text = { 0 };

	make_mark(x, &text);
	return put_note(t, t->mark, &text, err);
}

/* A failure here isn't an error: the note stays, and the next export deletes the rest. */
static void delete_stale(struct export *x, const struct target *t)
{
	size_t n = map_len(t->named), m = 0;
	const char **keys = arena_alloc(x->arena, (n + 1) * sizeof(*keys));

	for (size_t i = 0; i < n; i++) {
		const char *name;
		const void *bytes;
		size_t len;

		map_at(t->named, i, &bytes, &len);
		name = arena_strndup(x->arena, bytes, len);
		if (!map_get_str(t->by_name, name))
			keys[m++] = key_of(x, t, name);
	}
	if (m == 0 || bucket_delete_many(t->bucket, keys, m, NULL) == 0)
		bucket_delete_many(t->bucket, &t->pending, 1, NULL);
}

/* Steps 3 to 6. */
static int change(struct export *x, struct target *t, bool marked, struct err *err)
{
	_cleanup_(str_deinit) struct str text = { 0 };

	for (size_t i = 0; i < x->files.n; i++)
		map_slot_str(t->named, name_of(x, &x->files.v[i]));
	make_pending(t->named, &text);
	if (put_note(t, t->pending, &text, err) < 0 ||
	    (marked && bucket_delete_many(t->bucket, &t->mark, 1, err) < 0) ||
	    put_files(x, t, err) < 0 || look(x, t, err) < 0)
		return -1;
	for (size_t i = 0; i < x->files.n; i++)
		if (!x->files.v[i].seen || x->files.v[i].size_there != x->files.v[i].id.size_bytes)
			return err_set(err, ERR_CHANGED,
				       "`%s` was removed or written by somebody else meanwhile",
				       name_of(x, &x->files.v[i]));
	if (put_mark(x, t, err) < 0)
		return -1;
	delete_stale(x, t);
	return 0;
}

static int to_bucket(struct export *x, struct err *err)
{
	_cleanup_(map_freep) struct map *by_name = map_new(), *named = map_new();
	_cleanup_(json_decrefp) json_t *mark = NULL, *pending = NULL;
	struct target t = { .by_name = by_name, .named = named };
	bool same;

	if (find_target(x, &t, err) < 0 || read_note(x, &t, t.mark, is_mark, &mark, err) < 0 ||
	    read_note(x, &t, t.pending, is_pending, &pending, err) < 0 ||
	    (mark && look(x, &t, err) < 0))
		return -1;
	compare_old(&t, mark, pending);
	same = mark && !pending && map_len(t.named) == x->files.n;
	for (size_t i = 0; i < x->files.n && same; i++)
		same = x->files.v[i].there;
	return same ? put_mark(x, &t, err) : change(x, &t, mark != NULL, err);
}

/* A directory of this machine. */

static bool is_ours(const char *path, bool (*is)(const json_t *j))
{
	json_t *j = NULL;
	bool ours = json_read_file(path, MARK_MAX, &j, NULL) == 0 && is(j);

	json_decref(j);
	return ours;
}

static int write_mark(struct export *x, const char *path, struct err *err)
{
	_cleanup_(str_deinit) struct str text = { 0 };

	make_mark(x, &text);
	return fs_write_atomic(path, text.s, text.len, err);
}

/* The mark outlives a power cut, so the files that it names must too. */
static int make_lasting(struct export *x, const char *temp, struct err *err)
{
	_cleanup_(fd_closep) int fd = -1;

	if (content_materialise_at(x->s, &x->request->id, CONTENT_COPY_WRITABLE, AT_FDCWD, temp,
				   err) < 0)
		return -1;
	fd = open(temp, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 || syncfs(fd) < 0 ? err_errno(err, "cannot write %s", temp) : 0;
}

static int not_ours(const char *place, struct err *err)
{
	return err_set(err, ERR_EXISTS,
		       "%s is there already, and cairn didn't export it; remove it, or export to "
		       "another place",
		       place);
}

/* What lies at the place, held against its mark. */

static int has_changed(const struct export *x, const char *name, const char *how, struct err *err)
{
	return err_set(err, ERR_EXISTS,
		       "%s: `%s` %s since cairn exported it; move it away, or export to another "
		       "place",
		       x->place, name, how);
}

/* A file that is gone loses nothing when the rest is replaced. */
static int check_file(const struct export *x, int dir_fd, const char *path, const json_t *marked,
		      struct err *err)
{
	_cleanup_(fd_closep) int fd = -1;
	char buf[65536];
	struct digester *d;
	struct digest want, got;
	const char *sha256;
	struct err e = { 0 };
	struct stat st;
	ssize_t n;

	fd = fs_open_file_beneath(dir_fd, path, false, &st, &e);
	if (fd < 0 && e.code == ERR_NOT_FOUND)
		return 0;
	if (fd < 0 || json_get_str(marked, "sha256", &sha256, NULL) < 0 ||
	    digest_parse(sha256, &want, NULL) < 0)
		return has_changed(x, path, "has changed", err);
	d = digester_new();
	while ((n = read(fd, buf, sizeof(buf))) > 0 || (n < 0 && errno == EINTR))
		if (n > 0)
			digester_update(d, buf, (size_t)n);
	digester_final(d, &got);
	digester_free(d);
	if (n < 0)
		return err_errno(err, "cannot read %s/%s", x->place, path);
	return digest_eq(&want, &got) ? 0 : has_changed(x, path, "has changed", err);
}

/* Fails at an entry that `known` doesn't have. */
static int check_entries(const struct export *x, int dir_fd, const char *dir, int depth,
			 struct map *known, struct err *err)
{
	_cleanup_(closedirp) DIR *d =
		fs_list(fs_open_beneath(dir_fd, *dir ? dir : ".", O_RDONLY | O_DIRECTORY, false));
	struct dirent *e;
	int r = d && depth <= CONTENT_DEPTH_MAX
			? 0
			: err_errno(err, "cannot read %s/%s", x->place, dir);

	while (r == 0 && (r = fs_next(d, x->place, &e, err)) > 0) {
		_cleanup_(freep) char *path = fs_join(dir, e->d_name);
		struct stat st;

		r = 0;
		if (str_eq(path, EXPORT_MARK) || map_has(known, path, strlen(path)))
			continue;
		if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    S_ISDIR(st.st_mode))
			r = check_entries(x, dir_fd, path, depth + 1, known, err);
		else
			r = has_changed(x, path, "was put there", err);
	}
	return r;
}

static int check_dir(const struct export *x, const json_t *mark, struct err *err)
{
	_cleanup_(fd_closep) int fd = open(x->at, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_(map_freep) struct map *known = map_new();
	_cleanup_(str_deinit) struct str name = { 0 };
	json_t *j;
	size_t i;

	if (fd < 0)
		return err_errno(err, "cannot read %s", x->place);
	json_array_foreach(json_object_get(mark, "links"), i, j)
	{
		if (note_name(json_object_get(j, "name"), &name))
			map_slot_str(known, name.s);
	}
	json_array_foreach(json_object_get(mark, "files"), i, j)
	{
		if (!note_name(json_object_get(j, "name"), &name))
			continue;
		map_slot_str(known, name.s);
		if (check_file(x, fd, name.s, j, err) < 0)
			return -1;
	}
	return check_entries(x, fd, "", 0, known, err);
}

/* 1: something is there, and it is as cairn left it; 0: nothing is there. */
static int check_place(const struct export *x, mode_t kind, const char *mark_path,
		       const char *pending_path, struct err *err)
{
	_cleanup_(json_decrefp) json_t *mark = NULL;
	_cleanup_(fd_closep) int parent = -1;
	_cleanup_(freep) char *dir = fs_dirname(x->at);
	struct stat st;

	if (lstat(x->at, &st) < 0)
		return errno == ENOENT ? 0 : err_errno(err, "cannot read %s", x->place);
	if ((st.st_mode & S_IFMT) != kind)
		return not_ours(x->place, err);
	/* An export that was cut off has no mark for what is there. */
	if (pending_path && is_ours(pending_path, is_pending))
		return 1;
	if (json_read_file(mark_path, MARK_MAX, &mark, NULL) < 0 || !is_mark(mark))
		return not_ours(x->place, err);
	if (S_ISDIR(kind))
		return check_dir(x, mark, err) < 0 ? -1 : 1;
	parent = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return check_file(x, parent, fs_basename(x->at),
			  json_array_get(json_object_get(mark, "files"), 0), err) < 0
		       ? -1
		       : 1;
}

static int to_dir(struct export *x, const char *temp, struct err *err)
{
	_cleanup_(freep) char *mark = fs_join(x->at, EXPORT_MARK),
			      *own = fs_join(temp, EXPORT_MARK);

	if (check_place(x, S_IFDIR, mark, NULL, err) < 0 || make_lasting(x, temp, err) < 0 ||
	    write_mark(x, own, err) < 0)
		return -1;
	/* The new directory takes the place's name; the old one is removed. */
	if (renameat2(AT_FDCWD, temp, AT_FDCWD, x->at, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno == EINVAL && access(x->at, F_OK) < 0 &&
	    rename(temp, x->at) == 0) /* a file system without rename flags */
		return 0;
	if (renameat2(AT_FDCWD, temp, AT_FDCWD, x->at, RENAME_EXCHANGE) < 0)
		return err_errno(err, "cannot replace %s", x->place);
	return fs_remove_tree(temp, err);
}

static int to_file(struct export *x, const char *temp, struct err *err)
{
	_cleanup_(freep) char *mark = xasprintf("%s%s", x->at, EXPORT_MARK_SUFFIX);
	_cleanup_(freep) char *pending = xasprintf("%s%s", x->at, EXPORT_PENDING_SUFFIX);
	_cleanup_(map_freep) struct map *named = map_new();
	_cleanup_(str_deinit) struct str text = { 0 };

	if (check_place(x, S_IFREG, mark, pending, err) < 0)
		return -1;
	map_slot_str(named, fs_basename(x->place));
	make_pending(named, &text);
	if (make_lasting(x, temp, err) < 0 || fs_write_atomic(pending, text.s, text.len, err) < 0)
		return -1;
	if ((unlink(mark) < 0 && errno != ENOENT) || rename(temp, x->at) < 0)
		return err_errno(err, "cannot make %s", x->place);
	if (write_mark(x, mark, err) < 0)
		return -1;
	unlink(pending);
	return 0;
}

/* Removes what killed exports to this place left. The names hold host and process id. */
static void remove_leftovers(const char *parent, const char *prefix, const char *host)
{
	DIR *d = opendir(parent);
	struct dirent *e;

	while (d && fs_next(d, parent, &e, NULL) > 0) {
		const char *rest =
			str_has_prefix(e->d_name, prefix) ? e->d_name + strlen(prefix) : NULL;
		char *end = NULL;
		long pid = rest ? strtol(rest, &end, 10) : 0;

		if (pid > 0 && *end == '-' && str_eq(end + 1, host) && kill((pid_t)pid, 0) < 0 &&
		    errno == ESRCH)
			fs_remove_tree_at(dirfd(d), e->d_name, NULL);
	}
	if (d)
		closedir(d);
}

/* The directory that gets the export, opened; -1. Its place below `within` is reached without
 * links. */
static int open_parent(const struct export *x, struct err *err)
{
	_cleanup_(freep) char *parent = fs_dirname(x->place);
	_cleanup_(freep) char *below =
		x->request->within ? fs_relative(x->request->within, parent) : NULL;
	_cleanup_(fd_closep) int top = -1;
	int fd;

	if (x->request->within && !below)
		return err_set(err, ERR_INVALID, "%s leads out of the project", x->place);
	if (!below && fs_mkdir_p(parent, err) < 0)
		return -1;
	top = open(below ? x->request->within : parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (top < 0)
		return err_errno(err, "cannot open %s", below ? x->request->within : parent);
	if (!below || str_eq(below, "."))
		return TAKE_FD(top);
	fd = fs_make_beneath(top, below, 0777, err);
	return fd < 0 ? err_wrap(err, "in %s", x->request->within) : fd;
}

static int to_machine(struct export *x, struct err *err)
{
	char host[MACHINE_NAME_BYTES];
	const char *name = fs_basename(x->place);
	_cleanup_(fd_closep) int fd = open_parent(x, err);
	_cleanup_(freep) char *parent = NULL, *prefix = NULL, *temp = NULL;
	int r;

	if (fd < 0)
		return -1;
	parent = xasprintf("/proc/self/fd/%d", fd);
	prefix = xasprintf(".cairn-export-%s-", name);
	temp = xasprintf("%s/%s%ld-%s", parent, prefix, (long)getpid(), machine_name(host));
	x->at = arena_printf(x->arena, "%s/%s", parent, name);
	remove_leftovers(parent, prefix, host);
	fs_remove_tree(temp, NULL); /* of a dead process with this number */
	r = x->request->id.kind == CONTENT_TREE ? to_dir(x, temp, err) : to_file(x, temp, err);
	if (r < 0)
		fs_remove_tree(temp, NULL);
	x->done.sent = r == 0 ? x->files.n : 0;
	return r;
}

/* All. */

char *export_place(const struct export_request *request)
{
	_cleanup_(freep) char *below =
		request->within ? xasprintf("%s/%s", request->within, request->uri) : NULL;
	const char *path = below ? below
			   : str_has_prefix(request->uri, "file://")
				   ? request->uri + strlen("file://")
				   : request->uri;
	size_t n = strlen(path), scheme = *path == '/' ? 1 : 5;
	bool under = n && path[n - 1] == '/' && request->id.kind != CONTENT_TREE;
	_cleanup_(freep) char *plain = NULL, *whole = NULL;

	while (n > scheme && path[n - 1] == '/')
		n--;
	plain = xstrndup(path, n);
	whole = under ? xasprintf("%s/%s", plain, request->name) : xstrdup(plain);
	return *path == '/' ? fs_normalise(whole) : TAKE_PTR(whole);
}

/* Reads the mark at the place; *ret NULL: there is none, or it can't be relied on. */
static int find_mark(struct export *x, json_t **ret, struct err *err)
{
	bool tree = x->request->id.kind == CONTENT_TREE;
	_cleanup_(freep) char *mark = tree ? fs_join(x->place, EXPORT_MARK)
					   : xasprintf("%s%s", x->place, EXPORT_MARK_SUFFIX);
	_cleanup_(freep) char *pending = xasprintf("%s%s", x->place, EXPORT_PENDING_SUFFIX);
	_cleanup_(json_decrefp) json_t *cut_off = NULL;
	struct target t = { 0 };

	*ret = NULL;
	if (*x->place == '/') {
		if (access(x->place, F_OK) == 0 && (tree || access(pending, F_OK) < 0) &&
		    json_read_file(mark, MARK_MAX, ret, NULL) < 0)
			*ret = NULL;
		return 0;
	}
	if (find_target(x, &t, err) < 0 ||
	    read_note(x, &t, t.pending, is_pending, &cut_off, err) < 0)
		return -1;
	return cut_off ? 0 : read_note(x, &t, t.mark, is_mark, ret, err);
}

/* Whether the files that the mark lists are there with their sizes, and older than the mark. Their
 * bytes aren't read. */
static bool looks_whole(const struct export *x, const json_t *mark)
{
	bool tree = x->request->id.kind == CONTENT_TREE;
	_cleanup_(freep) char *dir = tree ? xstrdup(x->place) : fs_dirname(x->place);
	_cleanup_(freep) char *own =
		tree ? fs_join(dir, EXPORT_MARK) : xasprintf("%s%s", x->place, EXPORT_MARK_SUFFIX);
	_cleanup_(str_deinit) struct str name = { 0 };
	struct stat marked, st;
	json_t *j;
	size_t i;

	if (stat(own, &marked) < 0)
		return false;
	json_array_foreach(json_object_get(mark, "files"), i, j)
	{
		_cleanup_(freep) char *path = NULL;
		int64_t size;

		if (!note_name(json_object_get(j, "name"), &name) ||
		    json_get_int(j, "bytes", &size, NULL) < 0)
			return false;
		path = fs_join(dir, name.s);
		if (lstat(path, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size != size ||
		    st.st_mtim.tv_sec > marked.st_mtim.tv_sec ||
		    (st.st_mtim.tv_sec == marked.st_mtim.tv_sec &&
		     st.st_mtim.tv_nsec > marked.st_mtim.tv_nsec))
			return false;
	}
	return true;
}

int content_is_exported(struct store *s, const struct export_request *request, struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct export x = { .s = s, .request = request, .arena = arena };
	_cleanup_(json_decrefp) json_t *mark = NULL;
	const char *content;
	struct digest d;
	int r;

	x.place = export_place(request);
	r = find_mark(&x, &mark, err);
	if (r == 0 && mark && is_mark(mark) && json_get_str(mark, "content", &content, NULL) == 0 &&
	    digest_parse(content, &d, NULL) == 0)
		r = digest_eq(&d, &request->id.digest) &&
		    (*x.place != '/' || looks_whole(&x, mark));
	free(x.place);
	return r;
}

int content_export(struct store *s, const struct export_request *request, struct export_done *ret,
		   struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct export x = { .s = s, .request = request, .arena = arena };
	int r;

	x.place = export_place(request);
	r = request->id.kind == CONTENT_NONE || request->id.kind == CONTENT_REFERENCE
		    ? err_set(err, ERR_INVALID, "there is no content to export")
		    : collect(&x, err);
	if (r == 0)
		r = *x.place == '/' ? to_machine(&x, err) : to_bucket(&x, err);
	if (r == 0)
		*ret = x.done;
	VEC_FREE(&x.files);
	VEC_FREE(&x.links);
	free(x.place);
	return r;
}
