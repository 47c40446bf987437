/* engine/cli/progress/followed.c — the output of running tasks, as it is written.
 *
 * A task on this machine writes its log into a file, secrets masked (runners/runner.h). The display
 * reads what was added since its last look, at each tick of its timer: with -v it shows every line
 * behind the name of its task, and the block shows the last one. Lines are written whole, so those
 * of several tasks never mix.
 *
 * When an attempt ends, its file is emptied and used again. So bytes count only while the path
 * still leads to the open file, and the rest comes from the stored log.
 *
 * Ceilings: a look reads at most LOOK_MAX bytes of a task; of more, only the last LOOK_MAX, with a
 * line that says so. A line is cut after LINE_MAX_BYTES. So a flood of output costs neither time
 * nor memory, and the program never waits for us.
 *
 * A terminal obeys none of it: escape sequences are left out, other control characters made
 * visible. A carriage return begins the line anew, as a progress bar means it.
 *
 * Threads: the loop's. What it doesn't do: follow tasks on a cluster; `cairn logs -f` does.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include "base/os/fs.h"
#include "base/text/text.h"
#include "cli/progress/internal.h"

#define LOOK_MAX       ((off_t)(64 * KIB)) /* five looks a second: more than anybody reads */
#define LINE_MAX_BYTES 2000

/* Adds the line without what a terminal would obey. */
static void add_plain(struct str *out, const char *s, size_t n)
{
	size_t from = 0, i = 0;

	while (i < n) {
		if (s[i] != '\033') {
			i++;
			continue;
		}
		text_add_printable(out, s + from, i - from);
		i++;
		if (i < n && s[i] == '[') {
			for (i++; i < n && (unsigned char)s[i] < 0x40; i++)
				;
			i += i < n;
		} else if (i < n && s[i] == ']') {
			while (i < n && s[i] != '\a' && s[i] != '\033')
				i++;
			i += i < n && s[i] == '\a';
		} else {
			i += i < n;
		}
		from = i;
	}
	text_add_printable(out, s + from, n - from);
}

/* The line as a terminal would show it in the end: after the last carriage return that has text
 * behind it. */
static const char *after_return(const char *s, size_t *n)
{
	const char *end = s + *n, *cr;

	while (end > s && end[-1] == '\r')
		end--;
	cr = memrchr(s, '\r', (size_t)(end - s));
	s = cr ? cr + 1 : s;
	*n = (size_t)(end - s);
	return s;
}

/* A line of the task, perhaps unfinished: the block shows the newest. */
static void note_last(struct row *r)
{
	size_t n = r->output.line.len;
	const char *s = n ? after_return(r->output.line.s, &n) : "";
	_cleanup_(str_deinit) struct str shown = { 0 };

	add_plain(&shown, s, n);
	if (shown.len == 0 || strspn(shown.s, " ") == shown.len)
		return;
	str_reset(&r->output.last);
	str_addn(&r->output.last, shown.s, shown.len);
}

static void add_head(struct progress *p, const struct row *r)
{
	str_addf(&p->buf, "%s%s |%s ", progress_style(p, STYLE_DIM), r->name.s,
		 progress_style(p, STYLE_PLAIN));
}

static void end_line(struct progress *p, struct row *r)
{
	size_t n = r->output.line.len;
	const char *s = n ? after_return(r->output.line.s, &n) : "";

	note_last(r);
	if (p->o.verbosity >= 1) {
		add_head(p, r);
		add_plain(&p->buf, s, n);
		while (p->buf.len && p->buf.s[p->buf.len - 1] == ' ')
			p->buf.len--;
		str_addc(&p->buf, '\n');
	}
	str_reset(&r->output.line);
}

static void take(struct progress *p, struct row *r, const char *s, size_t n)
{
	while (n) {
		const char *nl = memchr(s, '\n', n);
		size_t len = nl ? (size_t)(nl - s) : n,
		       room = LINE_MAX_BYTES - MIN(r->output.line.len, (size_t)LINE_MAX_BYTES);

		/* A progress bar without newlines: only what its last return begins is kept. */
		if (len > room) {
			size_t kept = len;
			const char *last = after_return(s, &kept);

			if (last > s)
				str_reset(&r->output.line);
			str_addn(&r->output.line, last, MIN(kept, (size_t)LINE_MAX_BYTES));
		} else {
			str_addn(&r->output.line, s, len);
		}
		if (nl)
			end_line(p, r);
		s += len + (nl != NULL);
		n -= len + (nl != NULL);
	}
	if (r->output.line.len)
		note_last(r);
}

/* The size of what isn't read any more, in a line of its own. */
static void skip_to(struct progress *p, struct row *r, off_t size)
{
	off_t skipped = size - LOOK_MAX - r->output.at;

	if (skipped <= 0)
		return;
	if (r->output.line.len)
		end_line(p, r);
	r->output.at = size - LOOK_MAX;
	r->output.cut = true; /* up to the next newline */
	if (p->o.verbosity < 1)
		return;
	add_head(p, r);
	str_add(&p->buf, "(");
	text_add_bytes(&p->buf, (uint64_t)skipped);
	str_add(&p->buf, " not shown: `cairn logs` has all)\n");
}

/* From the file at `fd`, or of a log that has ended (path NULL). */
static void read_new(struct progress *p, struct row *r, int fd, const char *path)
{
	char buf[16384];
	struct stat st;
	ssize_t n;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size <= r->output.at ||
	    (path && !fs_leads_to(path, fd)))
		return;
	skip_to(p, r, st.st_size);
	while (r->output.at < st.st_size &&
	       (n = pread(fd, buf, (size_t)MIN((off_t)sizeof(buf), st.st_size - r->output.at),
			  r->output.at)) > 0) {
		const char *s = buf, *nl;
		size_t len = (size_t)n;

		if (path && !fs_leads_to(path, fd))
			return; /* the bytes may be another attempt's */
		r->output.at += n;
		if (r->output.cut) {
			nl = memchr(s, '\n', len);
			r->output.cut = !nl;
			len = nl ? (size_t)(s + len - nl - 1) : 0;
			s = nl ? nl + 1 : s;
		}
		take(p, r, s, len);
	}
}

static bool follows(const struct progress *p)
{
	return p->o.state_dir && (p->o.verbosity >= 1 || (p->o.live && p->o.verbosity == 0));
}

/* The lines that a look added to p->buf, which was empty, go above the block. */
static void write_lines(struct progress *p)
{
	_cleanup_(str_deinit) struct str lines = p->buf;

	p->buf = (struct str){ 0 };
	if (lines.len == 0)
		return;
	live_clear(p);
	str_addn(&p->buf, lines.s, lines.len);
	p->lines.last_ns = progress_now(p);
	progress_flush(p);
	live_touch(p);
}

static void look(struct progress *p, struct row *r)
{
	if (r->output.fd < 0 && !r->output.path)
		r->output.path = runner_local_log_path(p->o.state_dir, r->attempt);
	if (r->output.fd < 0)
		r->output.fd = open(r->output.path,
				    O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	if (r->output.fd >= 0)
		read_new(p, r, r->output.fd, r->output.path);
}

void followed_poll(struct progress *p)
{
	if (!follows(p) || p->run.finished)
		return;
	progress_flush(p);
	for (size_t i = 0; i < p->n_rows; i++)
		look(p, &p->rows.v[i]);
	write_lines(p);
	p->block.dirty = true;
}

void followed_ended(struct progress *p, struct row *r, const struct content_id *log)
{
	_cleanup_(fd_closep) int fd = -1;

	if (!follows(p) || p->run.finished || p->o.verbosity < 1)
		return;
	progress_flush(p);
	if (log->kind != CONTENT_NONE && content_open(p->o.store, log, &fd, NULL) == 0)
		read_new(p, r, fd, NULL);
	if (r->output.line.len)
		end_line(p, r);
	write_lines(p);
}

void followed_drop(struct row *r)
{
	fd_closep(&r->output.fd);
	free(r->output.path);
	r->output.path = NULL;
	str_deinit(&r->output.line);
	str_deinit(&r->output.last);
}
