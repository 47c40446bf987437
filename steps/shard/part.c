/* steps/shard/part.c — the bytes of a member: from a file, from memory, from the spool; arrays
 * become PNG or NPY.
 *
 * part_get() either appends the bytes to a buffer, or, when they are more than `most`, leaves them
 * where they are and gives a part_bytes, whose part_read() is the shard_field's read(). So a
 * thread that writes holds a few MiB, whatever the size of a file or array. An array as NPY is its
 * header and the bytes in the spool. A large one as PNG goes to a file without a name beside the
 * spool (struct png_out), as its size must be known before it is written; rows are read as they are
 * encoded.
 *
 * Files are opened below set->files_fd. A path from a directory walk is opened without following a
 * link; one that comes from a table or through a link (PART_NAMED, PART_LINK) must stay below the
 * root, which openat2() sees to.
 *
 * A file may shrink or grow between listing and writing: part_read() gives ERR_CHANGED when it is
 * too short, load_file() reads until the end. Only files are held against max_file here; archives
 * and IDX were when they were read.
 *
 * Any thread, once the spool is flushed; nothing here changes the set.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <png.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include "base/os/fs.h"
#include "steps/shard/internal.h"

#define READ_STEP (64 * KIB)
#define ROWS_STEP (256 * KIB) /* bytes of an array that are read at once to be encoded */

/* Files. */

/* A path that comes from a table, or through a link, stays below the root: the kernel sees to that
 * (openat2(2), since Linux 5.6). Without it links aren't followed at all; names were checked for
 * ".." before. */
static int open_beneath(const struct set *s, const char *path)
{
	struct open_how how = { .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK,
				.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS };
	int fd = (int)syscall(SYS_openat2, s->files_fd, path, &how, sizeof(how));

	return fd < 0 && errno == ENOSYS
		       ? openat(s->files_fd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW)
		       : fd;
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
		return err_set(err, ERR_INVALID, "%s/%s leads out of %s", s->files_root, p->at,
			       s->files_root);
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
	return err_set(err, ERR_TOO_LARGE, "%s/%s is larger than max_file, %llu bytes",
		       s->files_root, p->at, (unsigned long long)s->with.max_file);
}

/* Until a read gives nothing: on some file systems a short one isn't the end. */
static int load_file(const struct set *s, const struct part *p, uint64_t most, struct str *out,
		     struct part_bytes *large, struct err *err)
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

/* What is too large to be held. */

void part_close(struct part_bytes *b)
{
	if (b->fd >= 0)
		close(b->fd);
	b->fd = -1;
}

/* Before an array, its NPY header. */
static int read_spooled(const struct part_bytes *b, uint64_t at, void *to, size_t n,
			struct err *err)
{
	static const struct str none;
	const struct str *head = b->part->pixels ? &b->part->pixels->npy_header : &none;

	if (at < head->len) {
		size_t k = (size_t)MIN(n, head->len - at);

		memcpy(to, head->s + at, k);
		to = (char *)to + k;
		at += k;
		n -= k;
	}
	return n ? spool_read(&b->set->spool, b->part->offset + (at - head->len), to, n, err) : 0;
}

int part_read(const void *arg, uint64_t at, void *to, size_t n, struct err *err)
{
	const struct part_bytes *b = arg;
	ssize_t got;

	if (b->fd < 0)
		return read_spooled(b, at, to, n, err);
	got = fs_read_at(b->fd, to, n, (off_t)at);
	if (got < 0)
		return err_errno(err, "cannot read %s/%s", b->set->files_root, b->part->at);
	if ((size_t)got < n)
		return err_set(err, ERR_CHANGED, "%s/%s changed while it was read",
			       b->set->files_root, b->part->at);
	return 0;
}

/* Arrays. */

/* Where a PNG goes: into memory, or into a file. */
struct png_out {
	struct str *text;
	int fd; /* -1: into text */
	uint64_t n;
	struct err err; /* set where it was not libpng that failed */
};

static void png_append(png_structp png, png_bytep bytes, size_t n)
{
	struct png_out *o = png_get_io_ptr(png);

	o->n += n;
	if (o->fd < 0)
		str_addn(o->text, bytes, n);
	else if (fs_write_all(o->fd, bytes, n, &o->err) < 0)
		png_longjmp(png, 1);
}

static void png_nothing(png_structp png)
{
}

static void encode(png_structp png, png_infop info, const struct set *s, const struct part *part,
		   uint8_t *rows, struct png_out *o)
{
	const struct pixels *p = part->pixels;
	size_t row_bytes = (size_t)p->width * p->channels, step = MAX(ROWS_STEP / row_bytes, 1);

	png_set_IHDR(png, info, p->width, p->height, 8,
		     p->channels == 3 ? PNG_COLOR_TYPE_RGB : PNG_COLOR_TYPE_GRAY,
		     PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
	png_set_filter(png, PNG_FILTER_TYPE_BASE, PNG_FILTER_NONE);
	png_set_compression_level(png, 6);
	png_write_info(png, info);
	for (size_t y = 0; y < p->height; y += step) {
		size_t n = MIN(step, p->height - y);

		if (spool_read(&s->spool, part->offset + y * row_bytes, rows, n * row_bytes,
			       &o->err) < 0)
			png_longjmp(png, 1);
		for (size_t i = 0; i < n; i++)
			png_write_row(png, rows + i * row_bytes);
	}
	png_write_end(png, NULL);
}

static int add_png(const struct set *s, const struct part *part, struct png_out *o, struct err *err)
{
	const struct pixels *p = part->pixels;
	_cleanup_(freep) uint8_t *rows = xmalloc(MAX(ROWS_STEP, (size_t)p->width * p->channels));
	png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
	png_infop info = png ? png_create_info_struct(png) : NULL;

	if (!info)
		mem_die(0);
	/* Nothing that is cleaned up by scope changes behind this. */
	if (setjmp(png_jmpbuf(png))) { /* lint: setjmp because libpng reports errors so */
		png_destroy_write_struct(&png, &info);
		if (o->err.code)
			return err_set(err, o->err.code, "%s", o->err.msg);
		return err_set(err, ERR_INVALID, "an array of %u x %u x %u can't be made a PNG",
			       p->width, p->height, p->channels);
	}
	png_set_write_fn(png, o, png_append, png_nothing);
	encode(png, info, s, part, rows, o);
	png_destroy_write_struct(&png, &info);
	return 0;
}

static int load_pixels(const struct set *s, const struct part *p, uint64_t most, struct str *out,
		       struct part_bytes *large, struct err *err)
{
	const struct pixels *x = p->pixels;
	struct png_out o = { .text = out, .fd = -1 };
	uint64_t n = x->bytes + x->npy_header.len;

	if (x->png && x->bytes > most) {
		if (spool_file(s->splits[0].path, &o.fd, err) < 0)
			return -1;
		if (add_png(s, p, &o, err) < 0) {
			close(o.fd);
			return -1;
		}
		*large = (struct part_bytes){ s, p, o.fd, o.n };
		return 1;
	}
	if (x->png)
		return add_png(s, p, &o, err);
	*large = (struct part_bytes){ s, p, -1, n };
	if (n > most)
		return 1;
	str_reserve(out, n);
	if (read_spooled(large, 0, out->s + out->len, n, err) < 0)
		return -1;
	out->len += n;
	out->s[out->len] = '\0';
	return 0;
}

int part_get(const struct set *s, const struct part *p, uint64_t most, struct str *out,
	     struct part_bytes *large, struct err *err)
{
	if (p->pixels)
		return load_pixels(s, p, most, out, large, err);
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
	struct part_bytes never;

	return part_get(s, p, UINT64_MAX, out, &never, err);
}
