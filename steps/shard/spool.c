/* steps/shard/spool.c — keeps bytes that can be read only once, for the second pass. */
#include <assert.h>
#include <string.h>
#include "base/os/fs.h"
#include "steps/shard/internal.h"

#define SPOOL_BUFFER (1 * MIB)

int spool_file(const char *dir, int *ret_fd, struct err *err)
{
	_cleanup_(freep) char *path = fs_join(dir, "spool"), *temp = NULL;

	if (fs_temp_at(AT_FDCWD, path, 0600, ret_fd, &temp, err) < 0)
		return -1;
	unlink(temp);
	return 0;
}

int spool_open(struct spool *s, const char *dir, struct err *err)
{
	*s = (struct spool){ .fd = -1 };
	return spool_file(dir, &s->fd, err);
}

int spool_flush(struct spool *s, struct err *err)
{
	if (s->buf.len && fs_write_all(s->fd, s->buf.s, s->buf.len, err) < 0)
		return err_wrap(err, "keeping samples beside the output");
	s->flushed += s->buf.len;
	str_reset(&s->buf);
	return 0;
}

int spool_add(struct spool *s, const void *bytes, size_t n, struct err *err)
{
	str_addn(&s->buf, bytes, n);
	s->size += n;
	return s->buf.len >= SPOOL_BUFFER ? spool_flush(s, err) : 0;
}

int spool_read(const struct spool *s, uint64_t at, void *to, size_t n, struct err *err)
{
	size_t written = at < s->flushed ? (size_t)MIN(n, s->flushed - at) : 0;
	ssize_t got = fs_read_at(s->fd, to, written, (off_t)at);

	assert(at + n <= s->size);
	if (got < 0)
		return err_errno(err, "cannot read back what was kept beside the output");
	if ((size_t)got < written)
		return err_set(err, ERR_CHANGED, "what was kept beside the output became shorter");
	if (n > written)
		memcpy((char *)to + written, s->buf.s + (at + written - s->flushed), n - written);
	return 0;
}

void spool_close(struct spool *s)
{
	if (s->fd >= 0)
		close(s->fd);
	str_deinit(&s->buf);
	s->fd = -1;
}
