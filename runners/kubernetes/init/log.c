/* runners/kubernetes/init/log.c — writes what a program prints to the container's output and to
 * I/log.
 *
 * init_log_feed() masks the bytes and gives them to both. I/log comes first: keep() writes at once,
 * counts the bytes that don't fit on a full disk, and adds a note about the gap when there is space
 * again (add_note()). ROOM_BYTES are reserved before the program starts, so that a log on a full
 * disk isn't empty. A last note that doesn't fit overwrites the end of the log (keep_last_note()).
 * A log of INIT_LOG_MAX bytes takes only that note.
 *
 * The container's output doesn't block: bytes that it hasn't taken wait in `out`. At OUT_MAX the
 * helper stops reading from the program (init_log_is_full()), which waits as it would for a full
 * pipe. The helper gives up on a stopped reader at the end; when the pipe breaks, `out` is dropped.
 *
 * One thread, which never waits here. runners/redact.c does the masking.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "base/mem.h"
#include "runners/kubernetes/init/init.h"
#include "runners/redact.h"

/* How far the container's output may be behind before the program has to wait. */
#define OUT_MAX (1 * MIB)
/* Part of I/log, reserved before the program can fill the disk, for a note about it. */
#define ROOM_BYTES 4096
#define NOTE_MAX   96

/* *ret_short: a note for the log about secrets that are too short to mask. */
static struct redactor *redactor_of(const char *const *names, struct str *ret_short)
{
	VEC(const char *) values = { 0 };
	struct redactor *r;

	for (; *names; names++) {
		const char *value = getenv(*names);

		if (!value || !*value)
			continue;
		VEC_PUSH(&values, value);
		if (!redact_can_mask(value, strlen(value)))
			str_addf(ret_short,
				 "[cairn: the value of secret %s is too short to be masked here]\n",
				 *names);
	}
	r = values.n ? redactor_new(values.v, values.n) : NULL;
	VEC_FREE(&values);
	return r;
}

void init_log_open(struct init_log *l, int dir_fd, const char *const *names)
{
	int flags = fcntl(1, F_GETFL);
	struct str too_short = { 0 };

	*l = (struct init_log){ .max = INIT_LOG_MAX, .redactor = redactor_of(names, &too_short) };
	l->fd = openat(dir_fd, "log",
		       O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (l->fd >= 0) /* some file systems don't support it */
		(void)!fallocate(l->fd, FALLOC_FL_KEEP_SIZE, 0, ROOM_BYTES);
	else
		dprintf(1, "cairn-init: what the program prints can't be kept: %s\n",
			strerrordesc_np(errno));
	if (flags >= 0)
		fcntl(1, F_SETFL, flags | O_NONBLOCK);
	if (too_short.len)
		init_log_feed(l, too_short.s, too_short.len, false);
	str_deinit(&too_short);
}

static size_t write_some(int fd, const char *bytes, size_t n)
{
	size_t done = 0;

	while (done < n) {
		ssize_t got = write(fd, bytes + done, n - done);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		done += (size_t)got;
	}
	return done;
}

static size_t note_of(const struct init_log *l, uint64_t lost, char note[NOTE_MAX])
{
	return (size_t)snprintf(note, NOTE_MAX, "\n[cairn: %llu bytes are missing here: %s]\n",
				(unsigned long long)lost,
				l->is_over ? "the log is too long" : "the disk was full");
}

static bool add_note(struct init_log *l)
{
	char note[NOTE_MAX];
	size_t len = note_of(l, l->lost, note);
	off_t end = lseek(l->fd, 0, SEEK_END);

	if (write_some(l->fd, note, len) == len) {
		l->kept += len;
		l->lost = 0;
		return true;
	}
	if (end >= 0)
		(void)!ftruncate(l->fd, end);
	return false;
}

/* A full disk isn't the program's fault: lost bytes are counted, and a note names the gap when
 * there is space again. */
static void keep(struct init_log *l, const char *bytes, size_t n)
{
	size_t fits, written;

	if (l->fd < 0)
		return;
	if (l->is_over || (l->lost && !add_note(l))) {
		l->lost += n;
		return;
	}
	/* Room for two notes: the disk may have been full before. */
	fits = (size_t)MIN(l->max - MIN(l->max, l->kept + 2 * NOTE_MAX), (uint64_t)n);
	written = write_some(l->fd, bytes, fits);
	l->kept += written;
	l->lost += n - written;
	l->is_over = fits < n && written == fits;
}

/* The disk was full to the end, so the note overwrites the end of the log. */
static void keep_last_note(struct init_log *l)
{
	off_t end = lseek(l->fd, 0, SEEK_END), at = MAX(end - NOTE_MAX, 0);
	int flags = fcntl(l->fd, F_GETFL);
	char note[NOTE_MAX];
	size_t len;

	if (end < 0 || flags < 0 || add_note(l))
		return;
	fcntl(l->fd, F_SETFL, flags & ~O_APPEND);
	len = note_of(l, l->lost + (uint64_t)(end - at), note);
	if (pwrite(l->fd, note, len, at) == (ssize_t)len)
		(void)!ftruncate(l->fd, at + (off_t)len);
}

void init_log_flush(struct init_log *l)
{
	size_t n = write_some(1, l->out.s, l->out.len);

	if (n < l->out.len && errno != EAGAIN) /* nobody reads it any more */
		n = l->out.len;
	if (!n)
		return;
	memmove(l->out.s, l->out.s + n, l->out.len - n);
	l->out.len -= n;
}

bool init_log_is_full(const struct init_log *l)
{
	return l->out.len >= OUT_MAX;
}

void init_log_feed(struct init_log *l, const char *bytes, size_t n, bool end)
{
	if (l->redactor) {
		str_reset(&l->clean);
		redactor_feed(l->redactor, bytes, n, end, &l->clean);
		bytes = l->clean.s;
		n = l->clean.len;
	}
	if (!n)
		return;
	keep(l, bytes, n);
	if (l->unread)
		return;
	str_addn(&l->out, bytes, n);
	init_log_flush(l);
}

void init_log_give_up_output(struct init_log *l)
{
	l->unread = true;
	str_reset(&l->out);
}

void init_log_close(struct init_log *l)
{
	if (l->fd >= 0 && l->lost)
		keep_last_note(l);
	fd_closep(&l->fd);
	redactor_free(l->redactor);
	str_deinit(&l->clean);
	str_deinit(&l->out);
}
