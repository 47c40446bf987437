/* steps/normalise/unpacked.c — unpacked bytes that wait to be compared.
 *
 * Up to SMALL_MAX bytes stay in `small`; more go to a file in TMPDIR that is unlinked at once, so
 * that a crash leaves nothing. unpacked_end() maps it. Every byte counts towards the job's
 * bytes_max, over all levels and both sides.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include "base/os/fs.h"
#include "steps/normalise/normalise.h"

#define SMALL_MAX (1 * MIB)

void unpacked_init(struct unpacked *s, struct normalise_job *j)
{
	*s = (struct unpacked){ .job = j, .fd = -1 };
}

void unpacked_deinit(struct unpacked *s)
{
	str_deinit(&s->small);
	if (s->map)
		munmap(s->map, s->len);
	fd_closep(&s->fd);
	s->fd = -1;
	s->map = NULL;
}

static int flush_small(struct unpacked *s, struct err *err)
{
	const char *dir = getenv("TMPDIR");

	if (s->fd < 0) {
		_cleanup_(freep) char *path = NULL;

		dir = dir && *dir ? dir : "/tmp";
		path = fs_join(dir, "cairn-normalise-XXXXXX");
		s->fd = mkostemp(path, O_CLOEXEC);
		if (s->fd < 0)
			return err_errno(err, "cannot make a file in %s", dir);
		unlink(path);
	}
	if (fs_write_all(s->fd, s->small.s, s->small.len, err) < 0)
		return -1;
	str_reset(&s->small);
	return 0;
}

int unpacked_add(struct unpacked *s, const void *bytes, size_t n, struct err *err)
{
	assert(!s->map);
	if (n > s->job->bytes_max - s->job->bytes)
		return err_set(err, ERR_TOO_LARGE, "more than %llu bytes unpacked",
			       (unsigned long long)s->job->bytes_max);
	s->job->bytes += n;
	s->len += n;
	str_addn(&s->small, bytes, n);
	return s->small.len > SMALL_MAX ? flush_small(s, err) : 0;
}

int unpacked_end(struct unpacked *s, struct err *err)
{
	assert(!s->map);
	if (s->fd < 0) {
		s->all = (struct span){ (const uint8_t *)(s->small.s ? s->small.s : ""),
					s->small.len };
		return 0;
	}
	if (flush_small(s, err) < 0)
		return -1;
	s->map = mmap(NULL, s->len, PROT_READ, MAP_SHARED, s->fd, 0);
	if (s->map == MAP_FAILED) {
		s->map = NULL;
		return err_errno(err, "cannot map what was unpacked");
	}
	s->all = (struct span){ s->map, s->len };
	return 0;
}
