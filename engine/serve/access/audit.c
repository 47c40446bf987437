/* engine/serve/access/audit.c — the files of the audit log.
 *
 * Each line is one write(2) at the file's end, so that a crash leaves at most one half line. The
 * next server ends it, and reading skips it. Entries are numbered; the number goes on behind the
 * last one of the files.
 *
 * One lock protects all of struct audit. Reading takes it only to learn the number. */
#include "serve/access/audit.h"
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "base/text/text.h"
#include "base/time/clock.h"
#include "record/facts.h"
#include "serve/event.h"

#define PATH_MAX_BYTES 1024 /* of an entry */

struct audit {
	pthread_mutex_t lock;
	char *folder, *path, *old_path;
	int fd; /* -1: not open yet */
	off_t size;
	uint64_t last; /* the number of the last entry */
	bool failing;
};

struct audit *audit_new(const char *dir)
{
	struct audit *a = xcalloc(1, sizeof(*a));

	pthread_mutex_init(&a->lock, NULL);
	a->folder = fs_join(dir, "access");
	a->path = fs_join(dir, "access/audit.jsonl");
	a->old_path = fs_join(dir, "access/audit.1.jsonl");
	a->fd = -1;
	return a;
}

void audit_free(struct audit *a)
{
	if (!a)
		return;
	fd_closep(&a->fd);
	free(a->folder);
	free(a->path);
	free(a->old_path);
	pthread_mutex_destroy(&a->lock);
	free(a);
}

/* Reading. */

static int read_file(const char *path, struct str *ret, struct err *err)
{
	struct err why = { 0 };

	str_add(ret, "");
	if (fs_read_file(path, 4 * AUDIT_FILE_MAX, ret, &why) == 0 || why.code == ERR_NOT_FOUND)
		return 0;
	*err = why;
	return -1;
}

/* The last line that ends before `end`; false: there is none. */
static bool line_before(const struct str *s, size_t *end, const char **ret, size_t *ret_n)
{
	size_t from;

	while (*end && s->s[*end - 1] == '\n')
		--*end;
	for (from = *end; from && s->s[from - 1] != '\n';)
		from--;
	*ret = s->s + from;
	*ret_n = *end - from;
	*end = from;
	return *ret_n > 0;
}

struct reading {
	uint64_t before, limit, next;
	json_t *out;
};

/* False: the page is full. */
static bool read_lines(struct reading *r, const struct str *s)
{
	size_t end = s->len, n;
	const char *line;

	while (line_before(s, &end, &line, &n)) {
		json_t *j = json_loadb(line, n, 0, NULL);
		uint64_t number = (uint64_t)json_integer_value(json_object_get(j, "n"));

		if (!number || (r->before && number >= r->before)) {
			json_decref(j);
			continue;
		}
		if (json_array_size(r->out) == r->limit) {
			r->next = number + 1;
			json_decref(j);
			return false;
		}
		json_object_del(j, "n");
		json_array_append_new(r->out, j);
	}
	return true;
}

int audit_read(struct audit *a, uint64_t before, uint64_t limit, json_t **ret, uint64_t *ret_next,
	       struct err *err)
{
	_cleanup_(str_deinit) struct str newest = { 0 }, older = { 0 };
	struct reading r = { .before = before, .limit = limit };
	int result;

	pthread_mutex_lock(&a->lock); /* no rotation between the two */
	result = read_file(a->path, &newest, err);
	if (result == 0)
		result = read_file(a->old_path, &older, err);
	pthread_mutex_unlock(&a->lock);
	if (result < 0)
		return -1;
	r.out = json_array();
	if (read_lines(&r, &newest))
		read_lines(&r, &older);
	*ret = r.out;
	*ret_next = r.next;
	return 0;
}

/* Writing. */

static uint64_t last_number(const char *path)
{
	_cleanup_(str_deinit) struct str s = { 0 };
	struct reading r = { .limit = 0 };

	r.out = json_array();
	if (read_file(path, &s, &(struct err){ 0 }) == 0)
		read_lines(&r, &s);
	json_decref(r.out);
	return r.next ? r.next - 1 : 0;
}

static int open_file(struct audit *a, struct err *err)
{
	bool begins = a->last == 0;
	char last;

	if (fs_mkdir_p_at(AT_FDCWD, a->folder, 0700, err) < 0)
		return -1;
	a->fd = open(a->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (a->fd < 0)
		return err_errno(err, "cannot write %s", a->path);
	a->size = lseek(a->fd, 0, SEEK_END);
	/* What a crash has left of a line ends here. */
	if (a->size > 0 && pread(a->fd, &last, 1, a->size - 1) == 1 && last != '\n' &&
	    fs_write_all(a->fd, "\n", 1, err) < 0)
		return -1;
	if (begins)
		a->last = MAX(last_number(a->path), last_number(a->old_path));
	return 0;
}

static int write_line(struct audit *a, const struct str *line, struct err *err)
{
	if (a->fd >= 0 && a->size >= (off_t)AUDIT_FILE_MAX) {
		if (rename(a->path, a->old_path) < 0)
			return err_errno(err, "cannot rename %s", a->path);
		fd_closep(&a->fd);
		a->fd = -1;
	}
	if (a->fd < 0 && open_file(a, err) < 0)
		return -1;
	a->size += (off_t)line->len;
	return fs_write_all(a->fd, line->s, line->len, err);
}

void audit_add(struct audit *a, const struct audit_entry *e)
{
	_cleanup_(str_deinit) struct str line = { 0 };
	struct err err = { 0 };
	json_t *j;

	if (!a)
		return;
	pthread_mutex_lock(&a->lock);
	if (a->fd < 0 && open_file(a, &err) < 0) {
		if (!a->failing)
			event_err("audit-failed", NULL, &err);
		a->failing = true;
		pthread_mutex_unlock(&a->lock);
		return;
	}
	j = json_pack("{s:I, s:o, s:o, s:s?, s:s?, s:s, s:s, s:o, s:i}", "n", (json_int_t)++a->last,
		      "at", facts_time(clock_wall_ns()), "who", facts_text(e->who), "role", e->role,
		      "way", e->way, "address", e->address, "method", e->method, "path",
		      json_name(e->path, MIN(strlen(e->path), (size_t)PATH_MAX_BYTES)), "status",
		      (int)e->status);
	json_add_canonical(&line, j);
	json_decref(j);
	str_addc(&line, '\n');
	a->failing = write_line(a, &line, &err) < 0;
	if (a->failing)
		event_err("audit-failed", NULL, &err);
	pthread_mutex_unlock(&a->lock);
}
