#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "base/mem.h"
#include "runners/kubernetes/init/init.h"
#include "runners/redact.h"

/* That our output may be behind before the program has to wait. */
#define OUT_MAX (1 * MIB)

/* *ret_short: what the log has to say of those that it can't be kept free of. */
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

	*l = (struct init_log){ .redactor = redactor_of(names, &too_short) };
	l->fd = openat(dir_fd, "log", O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644);
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

/* A full disk isn't the program's fault: what can't be kept is counted, and the gap is named when there is room again. */
static void keep(struct init_log *l, const char *bytes, size_t n)
{
	char note[96];

	if (l->fd < 0)
		return;
	if (l->lost) {
		int len = snprintf(note, sizeof(note), "\n[cairn: %llu bytes are missing here: the disk was full]\n", (unsigned long long)l->lost);
		off_t end = lseek(l->fd, 0, SEEK_END);

		if (write_some(l->fd, note, (size_t)len) < (size_t)len) {
			if (end >= 0)
				(void)!ftruncate(l->fd, end);
			l->lost += n;
			return;
		}
		l->lost = 0;
	}
	l->lost += n - write_some(l->fd, bytes, n);
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
	str_addn(&l->out, bytes, n);
	init_log_flush(l);
}

void init_log_close(struct init_log *l)
{
	fd_closep(&l->fd);
	redactor_free(l->redactor);
	str_deinit(&l->clean);
	str_deinit(&l->out);
}
