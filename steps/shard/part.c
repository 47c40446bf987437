/* steps/shard/part.c — the bytes of a member: from a file, from memory, from the spool; arrays become PNG or NPY. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <png.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include "steps/shard/internal.h"

#define READ_STEP (64 * KIB)

/* --- files ------------------------------------------------------------------------------------------------------------------------ */

/* A path that comes from a table, or through a link, stays below the root: the kernel sees to that (openat2(2), since Linux 5.6). Without it links
 * aren't followed at all; names were checked for ".." before. */
static int open_beneath(const struct set *s, const char *path)
{
	struct open_how how = { .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK, .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS };
	int fd = (int)syscall(SYS_openat2, s->files_fd, path, &how, sizeof(how));

	return fd < 0 && errno == ENOSYS ? openat(s->files_fd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW) : fd;
}

static int open_file(const struct set *s, const struct part *p, struct err *err)
{
	struct stat st;
	int fd;

	if (p->where == PART_FILE)
		fd = openat(s->files_fd, p->at, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	else
		fd = open_beneath(s, p->at);
	if (fd < 0 && (errno == EXDEV || errno == ELOOP))
		return err_set(err, ERR_INVALID, "%s/%s leads out of %s", s->files_root, p->at, s->files_root);
	if (fd < 0)
		return err_errno(err, "cannot read %s/%s", s->files_root, p->at);
	if (p->where != PART_FILE && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))) {
		close(fd);
		return err_set(err, ERR_INVALID, "%s/%s is not a plain file", s->files_root, p->at);
	}
	return fd;
}

static int too_large(const struct set *s, const struct part *p, struct err *err)
{
	return err_set(err, ERR_TOO_LARGE, "%s/%s is larger than max_file, %llu bytes", s->files_root, p->at, (unsigned long long)s->with.max_file);
}

/* Until a read gives nothing: on some file systems a short one isn't the end. */
static int load_file(const struct set *s, const struct part *p, uint64_t most, struct str *out, struct part_bytes *large, struct err *err)
{
	_cleanup_(fd_closep) int fd = open_file(s, p, err);
	size_t begin = out->len, want = READ_STEP;
	struct stat st;

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size > most) {
		if ((uint64_t)st.st_size > s->with.max_file)
			return too_large(s, p, err);
		*large = (struct part_bytes){ s, p, TAKE_FD(fd), (uint64_t)st.st_size };
		return 1;
	}
	for (;;) {
		ssize_t n;

		str_reserve(out, want);
		n = read(fd, out->s + out->len, want);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(err, "cannot read %s/%s", s->files_root, p->at);
		out->len += (size_t)n;
		if (out->len - begin > s->with.max_file)
			return too_large(s, p, err);
		if (n == 0)
			break;
		want = (size_t)n == want ? MIN(want * 2, 16 * MIB) : want;
	}
	out->s[out->len] = '\0';
	return 0;
}

/* --- what is too large to be held --------------------------------------------------------------------------------------------------- */

void part_close(struct part_bytes *b)
{
	if (b->fd >= 0)
		close(b->fd);
	b->fd = -1;
}

int part_read(const void *arg, uint64_t at, void *to, size_t n, struct err *err)
{
	const struct part_bytes *b = arg;

	if (b->fd < 0)
		return spool_read(&b->set->spool, b->part->offset + at, to, n, err);
	while (n) {
		ssize_t got = pread(b->fd, to, n, (off_t)at);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_errno(err, "cannot read %s/%s", b->set->files_root, b->part->at);
		if (got == 0)
			return err_set(err, ERR_CHANGED, "%s/%s changed while it was read", b->set->files_root, b->part->at);
		to = (char *)to + got;
		at += (uint64_t)got;
		n -= (size_t)got;
	}
	return 0;
}

/* --- arrays ------------------------------------------------------------------------------------------------------------------------- */

static void png_append(png_structp png, png_bytep bytes, size_t n)
{
	str_addn(png_get_io_ptr(png), bytes, n);
}

static void png_nothing(png_structp png)
{
}

static void encode(png_structp png, png_infop info, const struct pixels *p, const uint8_t *raw)
{
	png_set_IHDR(png, info, p->width, p->height, 8, p->channels == 3 ? PNG_COLOR_TYPE_RGB : PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE,
		     PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
	png_set_filter(png, PNG_FILTER_TYPE_BASE, PNG_FILTER_NONE);
	png_set_compression_level(png, 6);
	png_write_info(png, info);
	for (uint32_t y = 0; y < p->height; y++)
		png_write_row(png, raw + (size_t)y * p->width * p->channels);
	png_write_end(png, NULL);
}

int pixels_add_png(struct str *out, const struct pixels *p, const void *raw, struct err *err)
{
	png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
	png_infop info = png ? png_create_info_struct(png) : NULL;

	if (!info)
		mem_die(0);
	if (setjmp(png_jmpbuf(png))) { /* lint: setjmp because libpng reports errors so; nothing here is cleaned up by scope */
		png_destroy_write_struct(&png, &info);
		return err_set(err, ERR_INVALID, "an array of %u x %u x %u can't be made a PNG", p->width, p->height, p->channels);
	}
	png_set_write_fn(png, out, png_append, png_nothing);
	encode(png, info, p, raw);
	png_destroy_write_struct(&png, &info);
	return 0;
}

static int load_pixels(const struct set *s, const struct part *p, struct str *out, struct err *err)
{
	_cleanup_(freep) char *raw = xmalloc(p->pixels->bytes);

	if (spool_read(&s->spool, p->offset, raw, p->pixels->bytes, err) < 0)
		return -1;
	if (p->pixels->png)
		return pixels_add_png(out, p->pixels, raw, err);
	str_addn(out, p->pixels->npy_header.s, p->pixels->npy_header.len);
	str_addn(out, raw, p->pixels->bytes);
	return 0;
}

int part_get(const struct set *s, const struct part *p, uint64_t most, struct str *out, struct part_bytes *large, struct err *err)
{
	if (p->pixels)
		return load_pixels(s, p, out, err);
	if (p->where == PART_MEMORY) {
		str_addn(out, p->at, p->n);
		return 0;
	}
	if (p->where != PART_SPOOL)
		return load_file(s, p, most, out, large, err);
	if (p->n > most) {
		*large = (struct part_bytes){ s, p, -1, p->n };
		return 1;
	}
	str_reserve(out, p->n);
	if (spool_read(&s->spool, p->offset, out->s + out->len, p->n, err) < 0)
		return -1;
	out->len += p->n;
	out->s[out->len] = '\0';
	return 0;
}

int part_load(const struct set *s, const struct part *p, struct str *out, struct err *err)
{
	return part_get(s, p, UINT64_MAX, out, NULL, err);
}
