/* engine/run/view/watched.c — series of steps on a cluster: who looks, and what was fetched.
 *
 * Two directories below `live` in the state directory:
 *
 *	watched/ATTEMPT   empty: somebody looks. The engine of the attempt takes the file away when
 *	                  it sees it, and counts WATCHED_NS on its own clock: it compares no times
 *	                  of two machines.
 *	series/ATTEMPT    the points so far, as a step's own series: a JSON object a line.
 *
 * An engine's first points of an attempt replace the file: its runner reports a series from its
 * beginning, and an earlier engine may have left one. A file that would be longer than BYTES_MAX
 * keeps every second line, as often as it takes.
 *
 * Invariants: a file ends with a whole line, also when the disk is full. Each directory holds about
 * FILES_MAX files at most, whatever dead engines left. Failures are forgotten: the run must not
 * depend on these files.
 *
 * Threads: the engine's side belongs to the loop's; any thread asks and reads. Not here: how points
 * come out of a pod (runners/kubernetes/series.c).
 */
#include "run/view/watched.h"
#include <string.h>
#include <unistd.h>
#include "base/os/fs.h"
#include "base/text/text.h"
#include "run/internal.h"

#define LOOK_NS   NS_PER_S
#define FILES_MAX 256
#define BYTES_MAX (4 * MIB)

#define ASKED  "live/watched"
#define POINTS "live/series"

struct watched {
	int64_t until_ns; /* monotonic */
	uint64_t bytes;   /* of the file of points */
	bool begun;       /* the file is this engine's */
};

static char *path_of(const char *state_dir, const char *dir, uint64_t attempt_id)
{
	return xasprintf("%s/%s/%llu", state_dir, dir, (unsigned long long)attempt_id);
}

static bool is_file(int dir_fd, const char *name, const struct stat *st)
{
	return S_ISREG(st->st_mode);
}

/* Makes the directory, and room in it for one more file. */
static bool make_room(const char *path)
{
	_cleanup_(freep) char *dir = fs_dirname(path);

	if (fs_mkdir_p(dir, NULL) < 0)
		return false;
	fs_keep_newest(dir, FILES_MAX - 1, is_file);
	return true;
}

/* Who looks. */

void watched_ask(const char *state_dir, uint64_t attempt_id)
{
	_cleanup_(freep) char *path = path_of(state_dir, ASKED, attempt_id);
	int fd;

	if (access(path, F_OK) == 0 || !make_room(path))
		return;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd >= 0)
		close(fd);
}

bool watched_read(const char *state_dir, uint64_t attempt_id, struct arena *arena,
		  struct series *ret)
{
	_cleanup_(freep) char *path = path_of(state_dir, POINTS, attempt_id);
	_cleanup_(str_deinit) struct str text = { 0 };

	if (fs_read_file(path, BYTES_MAX, &text, NULL) < 0)
		return false;
	while (text.len && text.s[text.len - 1] != '\n') /* it is being written */
		text.len--;
	return text.len && series_parse(text.s, text.len, arena, ret, NULL) == 0;
}

/* The engine. */

static struct watched *watched_of(struct run *r, uint64_t attempt_id)
{
	return r->watched.of ? map_get(r->watched.of, &attempt_id, sizeof(attempt_id)) : NULL;
}

static void watch(struct run *r, uint64_t attempt_id)
{
	void **slot;

	if (!r->watched.of)
		r->watched.of = map_new();
	slot = map_slot(r->watched.of, &attempt_id, sizeof(attempt_id), NULL);
	if (!*slot)
		*slot = xcalloc(1, sizeof(struct watched));
	((struct watched *)*slot)->until_ns = run_mono_ns(r) + WATCHED_NS;
}

/* Takes the files of this run's attempts; other runs of the project have theirs there, too. */
static void look(struct run *r)
{
	_cleanup_(freep) char *path = xasprintf("%s/" ASKED, r->ctx->config->state_dir);
	_cleanup_(closedirp) DIR *d = fs_list_at(AT_FDCWD, path, O_NOFOLLOW);
	struct dirent *e;

	while (d && fs_next(d, path, &e, NULL) > 0) {
		int64_t n;
		uint64_t id;

		if (!text_parse_int(e->d_name, &n))
			continue;
		id = (uint64_t)n;
		if (!map_get(r->tasks.by_attempt, &id, sizeof(id)))
			continue;
		unlinkat(dirfd(d), e->d_name, 0);
		watch(r, id);
	}
}

bool watched_now(void *run, uint64_t attempt_id)
{
	struct run *r = run;
	int64_t now = run_mono_ns(r);
	const struct watched *w;

	if (now >= r->watched.look_ns) {
		r->watched.look_ns = now + LOOK_NS;
		look(r);
	}
	w = watched_of(r, attempt_id);
	return w && now < w->until_ns;
}

/* Drops every second line. The last one stays. */
static void halve(struct str *text)
{
	size_t kept = 0, n = 0, total = 0;

	for (size_t i = 0; i < text->len; i++)
		total += text->s[i] == '\n';
	for (size_t at = 0; at < text->len; n++) {
		const char *end = memchr(text->s + at, '\n', text->len - at);
		size_t len = end ? (size_t)(end - text->s) + 1 - at : text->len - at;

		if ((total - n) % 2) {
			memmove(text->s + kept, text->s + at, len);
			kept += len;
		}
		at += len;
	}
	text->len = kept;
	text->s[kept] = '\0';
}

static void rewrite(struct watched *w, const char *path, const char *lines, size_t n)
{
	_cleanup_(str_deinit) struct str all = { 0 };

	if (w->begun && fs_read_file(path, BYTES_MAX, &all, NULL) < 0)
		return;
	str_addn(&all, lines, n);
	for (unsigned i = 0; i < 32 && all.len > BYTES_MAX / 2; i++)
		halve(&all);
	if (all.len > BYTES_MAX / 2) /* one line, that no runner writes */
		all.len = 0;
	if (fs_write_atomic_at(AT_FDCWD, path, all.s, all.len, 0644, FS_WRITE_NO_SYNC, NULL) < 0)
		return;
	w->begun = true;
	w->bytes = all.len;
}

void watched_points(void *run, uint64_t attempt_id, const char *lines, size_t n)
{
	struct run *r = run;
	struct watched *w = watched_of(r, attempt_id);
	_cleanup_(freep) char *path = path_of(r->ctx->config->state_dir, POINTS, attempt_id);
	_cleanup_(fd_closep) int fd = -1;

	if (!w || n == 0 || (!w->begun && !make_room(path)))
		return;
	if (!w->begun || w->bytes + n > BYTES_MAX) {
		rewrite(w, path, lines, n);
		return;
	}
	fd = open(path, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		w->begun = false; /* somebody removed it */
	else if (fs_write_all(fd, lines, n, NULL) == 0)
		w->bytes += n;
	else
		w->begun = ftruncate(fd, (off_t)w->bytes) == 0;
}

void watched_settled(struct run *r, uint64_t attempt_id)
{
	static const char *const dirs[] = { ASKED, POINTS };

	if (loop_clock(r->ctx->loop)->is_virtual) /* thousands of runs of a test, none on a disk */
		return;
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		_cleanup_(freep) char *path =
			path_of(r->ctx->config->state_dir, dirs[i], attempt_id);

		unlink(path);
	}
	if (watched_of(r, attempt_id)) {
		void **slot = map_slot(r->watched.of, &attempt_id, sizeof(attempt_id), NULL);

		free(*slot);
		*slot = NULL;
	}
}

void watched_deinit(struct run *r)
{
	for (size_t i = 0; r->watched.of && i < map_len(r->watched.of); i++)
		free(map_at(r->watched.of, i, NULL, NULL));
	map_free(r->watched.of);
}
