/* runners/series/events.c — follows TensorBoard's event files.
 *
 * A look lists the directory and reads each file from where the last look stopped, whole records
 * only. Scalars are small: a record that is longer (an image, a graph) is passed over. A file is
 * known by its path; one that shrank or was replaced is read from its beginning, and one that has a
 * wrong checksum no more.
 *
 * Invariants: a look opens at most ENTRIES_MAX entries and reads about LOOK_BYTES, since the loop
 * of an engine waits for it. At most FILES_MAX files are followed and TAGS_MAX tags told.
 */
#include "runners/series/events.h"
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/map.h"
#include "base/mem.h"
#include "base/os/fs.h"
#include "runners/series/series.h"
#include "runners/series/tensorboard.h"

#define ENTRIES_MAX 1000
#define DEPTH_MAX   8
#define FILES_MAX   64
#define TAGS_MAX    256
#define STEPS_MAX   8 /* of a look: a training counts batches, and beside them epochs */
#define LOOK_BYTES  (1 * MIB)
#define CHUNK_BYTES (16 * KIB) /* no longer record is read */
#define NAME_BYTES  128
#define AROUND      (TB_HEAD_BYTES + TB_TAIL_BYTES)

struct event_file {
	char *path;
	ino_t ino;
	uint64_t at; /* of the first record that wasn't read */
	bool seen, spoiled;
};

struct event_tail {
	VEC(struct event_file) files;
};

struct scalar {
	char *name;
	double step, value;
};

/* A look at a directory. */
struct walk {
	event_file_fn *fn;
	void *arg;
	size_t entries; /* that may still be looked at */
};

static void walk_into(struct walk *w, int dir_fd, const char *name, const char *prefix,
		      unsigned depth)
{
	_cleanup_(closedirp) DIR *d = fs_list_at(dir_fd, name, O_NOFOLLOW);
	struct dirent *e;

	while (d && w->entries && fs_next(d, name, &e, NULL) > 0) {
		_cleanup_(freep) char *below = xasprintf("%s%s/", prefix, e->d_name);
		_cleanup_(fd_closep) int fd = -1;
		struct stat st;

		w->entries--;
		if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (S_ISDIR(st.st_mode) && depth)
			walk_into(w, dirfd(d), e->d_name, below, depth - 1);
		if (!S_ISREG(st.st_mode) || !strstr(e->d_name, "tfevents"))
			continue;
		fd = fs_open_file_beneath(dirfd(d), e->d_name, false, &st, NULL);
		if (fd >= 0)
			w->fn(w->arg, fd, (uint64_t)st.st_size, st.st_ino, prefix, e->d_name);
	}
}

bool event_files_each(int dir_fd, event_file_fn *fn, void *arg)
{
	struct walk w = { fn, arg, ENTRIES_MAX };

	walk_into(&w, dir_fd, ".", "", DEPTH_MAX);
	return w.entries > 0;
}

struct look {
	struct event_tail *t;
	struct map *newest; /* name → struct scalar */
	unsigned char *chunk;
	uint64_t bytes; /* that may still be read */
};

struct event_tail *event_tail_new(void)
{
	return xcalloc(1, sizeof(struct event_tail));
}

void event_tail_free(struct event_tail *t)
{
	for (size_t i = 0; t && i < t->files.n; i++)
		free(t->files.v[i].path);
	if (t)
		VEC_FREE(&t->files);
	free(t);
}

/* The state of a file. NULL: there is no room for another one. */
static struct event_file *follow(struct event_tail *t, const char *prefix, const char *name,
				 ino_t ino, uint64_t size)
{
	_cleanup_(freep) char *path = xasprintf("%s%s", prefix, name);
	struct event_file *f = NULL;

	for (size_t i = 0; i < t->files.n && !f; i++)
		if (strcmp(t->files.v[i].path, path) == 0)
			f = &t->files.v[i];
	if (!f && t->files.n < FILES_MAX) {
		VEC_PUSH(&t->files, ((struct event_file){ .path = TAKE_PTR(path) }));
		f = &t->files.v[t->files.n - 1];
	}
	if (f && (f->ino != ino || size < f->at))
		*f = (struct event_file){ .path = f->path, .ino = ino };
	return f;
}

static void forget_removed(struct event_tail *t)
{
	size_t kept = 0;

	for (size_t i = 0; i < t->files.n; i++) {
		struct event_file *f = &t->files.v[i];

		if (!f->seen) {
			free(f->path);
			continue;
		}
		f->seen = false;
		t->files.v[kept++] = *f;
	}
	t->files.n = kept;
}

struct source {
	struct look *l;
	const char *prefix; /* "train/" */
};

static void add_scalar(void *arg, const char *tag, double step, double value, double time_s)
{
	const struct source *from = arg;
	char name[NAME_BYTES];
	struct scalar **slot;

	(void)time_s;
	if (!isfinite(value) ||
	    (size_t)snprintf(name, sizeof(name), "%s%s", from->prefix, tag) >= sizeof(name) ||
	    strcmp(name, SERIES_STEP) == 0 ||
	    (map_len(from->l->newest) >= TAGS_MAX && !map_get_str(from->l->newest, name)))
		return;
	slot = (struct scalar **)map_slot_str(from->l->newest, name);
	if (!*slot) {
		*slot = xcalloc(1, sizeof(**slot));
		(*slot)->name = xstrdup(name);
	}
	(*slot)->step = step;
	(*slot)->value = value;
}

/* Reads on, whole records. */
static void read_on(void *arg, int fd, uint64_t size, ino_t ino, const char *prefix,
		    const char *name)
{
	struct look *l = arg;
	struct event_file *f = follow(l->t, prefix, name, ino, size);
	struct source from = { l, prefix };

	if (!f)
		return;
	f->seen = true;
	while (!f->spoiled && l->bytes && size - f->at >= TB_HEAD_BYTES) {
		size_t want = (size_t)MIN(size - f->at, MIN(CHUNK_BYTES, l->bytes)), end;
		ssize_t n = fs_read_at(fd, l->chunk, want, (off_t)f->at);
		uint64_t len;

		if (n < TB_HEAD_BYTES)
			return;
		l->bytes -= (uint64_t)n;
		f->spoiled =
			tensorboard_read(l->chunk, (size_t)n, add_scalar, &from, &end, NULL) < 0;
		f->at += end;
		if (end || f->spoiled)
			continue;
		/* A record that is too long, or isn't whole yet. */
		f->spoiled = !tensorboard_record(l->chunk, &len);
		if (f->spoiled || len <= CHUNK_BYTES - AROUND || len > size - f->at ||
		    len + AROUND > size - f->at)
			return;
		f->at += len + AROUND;
	}
}

static int by_step(const void *a, const void *b)
{
	const struct scalar *x = a, *y = b;

	return x->step != y->step ? (x->step > y->step) - (x->step < y->step)
				  : strcmp(x->name, y->name);
}

/* The last STEPS_MAX steps. */
static void tell(const struct scalar *v, size_t n,
		 void (*fn)(void *arg, const char *name, double value), void *arg)
{
	size_t steps = 0, from = n;

	while (from && (from == n || v[from - 1].step == v[from].step || steps < STEPS_MAX)) {
		steps += from == n || v[from - 1].step != v[from].step;
		from--;
	}
	for (size_t i = from; i < n; i++) {
		if (i == from || v[i].step != v[i - 1].step)
			fn(arg, SERIES_STEP, v[i].step);
		fn(arg, v[i].name, v[i].value);
	}
}

void event_tail_poll(struct event_tail *t, int dir_fd,
		     void (*fn)(void *arg, const char *name, double value), void *arg)
{
	struct look l = { t, map_new(), xmalloc(CHUNK_BYTES), LOOK_BYTES };
	struct scalar *all;
	size_t n;

	if (event_files_each(dir_fd, read_on, &l))
		forget_removed(t);
	n = map_len(l.newest);
	all = xcalloc(n + 1, sizeof(*all));
	for (size_t i = 0; i < n; i++) {
		struct scalar *s = map_at(l.newest, i, NULL, NULL);

		all[i] = *s;
		free(s);
	}
	qsort(all, n, sizeof(*all), by_step);
	tell(all, n, fn, arg);
	for (size_t i = 0; i < n; i++)
		free(all[i].name);
	free(all);
	free(l.chunk);
	map_free(l.newest);
}
