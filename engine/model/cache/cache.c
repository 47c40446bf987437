/* engine/model/cache/cache.c — the files that keep parsed models: their names, layout, reading,
 * writing, trimming.
 *
 * Layout of a file: magic, format, checksum of the rest; the step files with their digests; the
 * warnings; the model (codec.c). The checksum protects against accidents, such as a torn write
 * (nothing is synced here). The decoder protects against malice: it checks everything.
 *
 * The name is the digest of all that decides what the main file means: format, version of Cairn and
 * its program, the project's root, the file's name as given, its bytes. Only the cached model knows
 * its step files, so they are fetched and compared after the cache file was found. The caller gets
 * the warnings only when everything else is right.
 *
 * Writing is atomic (fs_write_atomic_at()), so several processes may use one directory at once: the
 * last one wins, with the same content. A hit updates the file's time; storing removes the oldest
 * files, and temporaries that a crash left.
 */
#include "model/cache/cache.h"

#include <assert.h>
#include <errno.h>
#include <sys/stat.h>
#include <time.h>
#include "base/os/fs.h"
#include "base/os/machine.h"

#define MAGIC          "cairnmdl"
#define HEAD_BYTES     20         /* magic, u32 format, u64 checksum */
#define CACHE_FILE_MAX (64 * MIB) /* larger models are parsed again each time */
#define STALE_TEMP_S   3600

void model_cache_key(const char *root, const char *display, const char *path, const char *bytes,
		     size_t len, struct model_cache_key *ret)
{
	struct digester *dg = digester_new();
	struct str head = { 0 };

	str_add_field(&head, MAGIC, strlen(MAGIC));
	str_add_u32(&head, MODEL_CACHE_FORMAT);
	machine_add_program(&head); /* another build may read it differently */
	str_add_field(&head, root ? root : "",
		      root ? strlen(root) : 0); /* some warnings mention it */
	str_add_field(&head, display, strlen(display));
	str_add_field(&head, path, strlen(path));
	digester_update(dg, head.s, head.len);
	digester_update(dg, bytes, len);
	digester_final(dg, &ret->digest);
	digester_free(dg);
	str_deinit(&head);
}

static bool is_private(const char *dir)
{
	_cleanup_(fd_closep) int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == geteuid() && !(st.st_mode & 022);
}

char *model_cache_dir(void)
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	_cleanup_(freep) char *parent = NULL, *dir = NULL;
	struct stat st;

	if (home && stat(home, &st) == 0 &&
	    st.st_uid != geteuid()) /* sudo may keep another user's HOME: don't write there */
		home = NULL;
	if (cache && *cache == '/')
		parent = xasprintf("%s/cairn", cache);
	else if (home && *home == '/')
		parent = xasprintf("%s/.cache/cairn", home);
	else
		return NULL;
	dir = fs_join(parent, "models");
	if (access(dir, F_OK) < 0 && (fs_mkdir_p_at(AT_FDCWD, parent, 0700, NULL) < 0 ||
				      (mkdir(dir, 0700) < 0 && errno != EEXIST)))
		return NULL;
	return is_private(parent) && is_private(dir) ? TAKE_PTR(dir) : NULL;
}

static char *file_name(const char *dir, const struct model_cache_key *key)
{
	char hex[DIGEST_HEX_MAX];

	return xasprintf("%s/%s.model", dir, digest_hex(&key->digest, hex));
}

/* Multiplies and folds eight bytes at a time: as fast as memory, and detects any flipped bit. */
static uint64_t checksum(const char *p, size_t n)
{
	uint64_t h = 0x9e3779b97f4a7c15ULL ^ n, w;

	for (; n; p += MIN(n, 8), n -= MIN(n, 8)) {
		w = 0;
		memcpy(&w, p, MIN(n, 8));
		h = (h ^ w) * 0xd6e8feb86659fd93ULL;
		h ^= h >> 32;
	}
	return h;
}

/* Reading. */

struct cursor {
	const char *p, *end;
	bool failed;
};

static uint32_t take_u32(struct cursor *c)
{
	uint32_t v = 0;

	if (c->end - c->p < 4) {
		c->failed = true;
		return 0;
	}
	for (int i = 0; i < 4; i++)
		v |= (uint32_t)(unsigned char)c->p[i] << (8 * i);
	c->p += 4;
	return v;
}

/* Reads a field that ends in a NUL; "" when there is none. */
static const char *take_text(struct cursor *c, size_t *ret_len)
{
	uint32_t n = take_u32(c);
	const char *text = c->p;

	if (c->failed || n == 0 || n > (size_t)(c->end - c->p) || text[n - 1] != '\0') {
		c->failed = true;
		n = 1;
		text = "";
	} else {
		c->p += n;
	}
	if (ret_len)
		*ret_len = n - 1;
	return text;
}

/* Whether the step files are unchanged. */
static bool same_step_files(struct cursor *c, fetch_fn fetch, void *fetch_arg)
{
	uint32_t n = take_u32(c);

	for (uint32_t i = 0; i < n && !c->failed; i++) {
		const char *path = take_text(c, NULL), *bytes;
		struct digest then, now;
		struct err err = { 0 };
		size_t len;

		if (c->failed || c->end - c->p < DIGEST_BYTES)
			return false;
		memcpy(then.b, c->p, DIGEST_BYTES);
		c->p += DIGEST_BYTES;
		if (fetch(fetch_arg, path, &bytes, &len, &err) != 0)
			return false;
		digest_bytes(bytes, len, &now);
		if (!digest_eq(&then, &now))
			return false;
	}
	return !c->failed;
}

static void replay_warnings(struct cursor *c, struct diag_list *diags)
{
	uint32_t n = take_u32(c);

	for (uint32_t i = 0; i < n && !c->failed; i++) {
		const char *file = take_text(c, NULL);
		uint32_t line = take_u32(c), col = take_u32(c);
		const char *message = take_text(c, NULL);

		if (!c->failed && diags)
			diag_warning(diags, file, (int)line, (int)col, "%s", message);
	}
}

static bool decode(char *bytes, size_t len, struct arena *arena, fetch_fn fetch, void *fetch_arg,
		   struct diag_list *diags, struct pipeline **ret)
{
	struct cursor c = { bytes, bytes + len, false }, warnings;
	uint64_t sum;

	if (len < HEAD_BYTES || memcmp(bytes, MAGIC, strlen(MAGIC)) != 0)
		return false;
	c.p += strlen(MAGIC);
	if (take_u32(&c) != MODEL_CACHE_FORMAT)
		return false;
	sum = take_u32(&c);
	sum |= (uint64_t)take_u32(&c) << 32;
	if (sum != checksum(bytes + HEAD_BYTES, len - HEAD_BYTES) ||
	    !same_step_files(&c, fetch, fetch_arg))
		return false;
	warnings = c;
	replay_warnings(&c, NULL);
	if (c.failed || !model_decode(c.p, (size_t)(c.end - c.p), arena, ret))
		return false;
	replay_warnings(&warnings, diags);
	return true;
}

bool model_cache_load(const char *dir, const struct model_cache_key *key, fetch_fn fetch,
		      void *fetch_arg, struct diag_list *diags, struct pipeline **ret)
{
	_cleanup_(freep) char *name = file_name(dir, key);
	_cleanup_(fd_closep) int fd = open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct arena *arena;
	struct stat st;
	char *bytes;
	bool ok;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size < HEAD_BYTES ||
	    (uint64_t)st.st_size > CACHE_FILE_MAX)
		return false;
	arena = arena_new();
	bytes = arena_alloc(arena, (size_t)st.st_size + 1); /* the model's strings point into it */
	ok = fs_read_at(fd, bytes, (size_t)st.st_size, 0) == st.st_size &&
	     decode(bytes, (size_t)st.st_size, arena, fetch, fetch_arg, diags, ret);
	if (!ok)
		arena_free(arena);
	else
		utimensat(AT_FDCWD, name, NULL, 0); /* a file in use is trimmed last */
	return ok;
}

/* Writing. */

static bool add_step_files(struct str *out, const struct pipeline *p, fetch_fn fetch,
			   void *fetch_arg)
{
	assert(p->n_files > 0);
	str_add_u32(out, (uint32_t)(p->n_files - 1));
	for (size_t i = 1; i < p->n_files; i++) {
		const char *bytes;
		struct err err = { 0 };
		struct digest digest;
		size_t len;

		if (fetch(fetch_arg, p->files[i], &bytes, &len, &err) != 0)
			return false;
		digest_bytes(bytes, len, &digest);
		str_add_field(out, p->files[i], strlen(p->files[i]) + 1);
		str_addn(out, digest.b, DIGEST_BYTES);
	}
	return true;
}

static void add_warnings(struct str *out, struct diag_list *diags)
{
	size_t n = diag_len(diags);

	str_add_u32(out, (uint32_t)n);
	for (size_t i = 0; i < n; i++) {
		const struct diag *d = diag_at(diags, i);

		str_add_field(out, d->file, strlen(d->file) + 1);
		str_add_u32(out, (uint32_t)d->line);
		str_add_u32(out, (uint32_t)d->col);
		str_add_field(out, d->message, strlen(d->message) + 1);
	}
}

/* Also removes temporaries that a crash left. */
static bool is_model(int dir_fd, const char *name, const struct stat *st)
{
	if (str_has_prefix(name, ".tmp-") &&
	    st->st_mtim.tv_sec + STALE_TEMP_S <
		    time(NULL)) /* lint: time because files are as old as the machine says */
		unlinkat(dir_fd, name, 0);
	return !str_has_prefix(name, ".tmp-") && str_has_suffix(name, ".model");
}

void model_cache_store(const char *dir, const struct model_cache_key *key, const struct pipeline *p,
		       fetch_fn fetch, void *fetch_arg, struct diag_list *diags)
{
	_cleanup_(freep) char *name = file_name(dir, key);
	struct str out = { 0 }, body = { 0 };

	if (diag_errors(diags) == 0 && add_step_files(&body, p, fetch, fetch_arg)) {
		bool ok;

		add_warnings(&body, diags);
		ok = model_encode(p, &body) && body.len + HEAD_BYTES <= CACHE_FILE_MAX;
		str_add(&out, MAGIC);
		str_add_u32(&out, MODEL_CACHE_FORMAT);
		str_add_u64(&out, checksum(body.s, body.len));
		str_addn(&out, body.s, body.len);
		if (ok && fs_mkdir_p(dir, NULL) == 0 &&
		    fs_write_atomic_at(AT_FDCWD, name, out.s, out.len, 0644, FS_WRITE_NO_SYNC,
				       NULL) == 0)
			fs_keep_newest(dir, MODEL_CACHE_FILES, is_model);
	}
	str_deinit(&body);
	str_deinit(&out);
}
