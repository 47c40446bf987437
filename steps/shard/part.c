/* steps/shard/part.c — the bytes of a member: from a file, from memory, from the spool; arrays
 * become PNG or NPY.
 *
 * part_get() appends the bytes to a buffer. If they are more than `most`, it leaves them where they
 * are and returns a part_bytes, whose part_read() is the shard_field's read(). So a writing thread
 * holds a few MiB, whatever the size of a file or array. An array as NPY is its header and the
 * bytes in the spool. A large one as PNG goes to an unnamed file next to the spool (struct
 * png_out), since its size must be known before it is written; rows are read as they are encoded.
 *
 * Files are opened below set->files_fd. A path from a directory walk is opened without following a
 * link. A path that comes from a table or through a link (PART_NAMED, PART_LINK) must stay below
 * the root, which fs_open_beneath() ensures.
 *
 * A file may shrink or grow between listing and writing: part_read() gives ERR_CHANGED when it is
 * too short, load_file() reads until the end. Only files are checked against max_file here;
 * archives and IDX were checked when they were read.
 *
 * Any thread, once the spool is flushed; nothing here changes the set.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <png.h>
#include <string.h>
#include <sys/stat.h>
#include "base/os/fs.h"
#include "steps/shard/internal.h"

#define READ_STEP (64 * KIB)
#define ROWS_STEP (256 * KIB) /* bytes of an array to read at once for encoding */

/* Files. */

static int open_file(const struct set *s, const struct part *p, struct err *err)
{
	struct stat st;
	int fd;

	if (p->where == PART_FILE)
		fd = openat(s->files_fd, p->at, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	else
		fd = fs_open_beneath(s->files_fd, p->at, O_RDONLY | O_NONBLOCK, true);
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
		       s->files_root, p->at, (unsigned long long)s->with.max.file);
}

/* Reads until a read returns nothing: on some file systems a short read isn't the end. */
static int load_file(const struct set *s, const struct part *p, uint64_t most, struct str *out,
		     struct part_bytes *large, struct err *err)
{
	_cleanup_(fd_closep) int fd = open_file(s, p, err);
	size_t begin = out->len, want = READ_STEP;
	struct stat st;

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size > most) {
		if ((uint64_t)st.st_size > s->with.max.file)
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
		if (out->len - begin > s->with.max.file)
			return too_large(s, p, err);
		if (n == 0)
			break;
		want = (size_t)n == want ? MIN(want * 2, 16 * MIB) : want;
	}
	out->s[out->len] = '\0';
	return 0;
}

/* Parts that are too large for memory. */

void part_close(struct part_bytes *b)
{
	if (b->fd >= 0)
		close(b->fd);
	b->fd = -1;
}

int part_read(const void *arg, uint64_t at, void *to, size_t n, struct err *err)
{
	static const struct str none;
	const struct part_bytes *b = arg;
	const struct str *head = b->part->pixels ? &b->part->pixels->npy_header : &none;
	ssize_t got;

	assert(at + n <= b->n);
	if (b->fd >= 0) {
		got = fs_read_at(b->fd, to, n, (off_t)at);
		if (got < 0)
			return err_errno(err, "cannot read %s/%s", b->set->files_root, b->part->at);
		if ((size_t)got < n)
			return err_set(err, ERR_CHANGED, "%s/%s changed while it was read",
				       b->set->files_root, b->part->at);
		return 0;
	}
	if (at < head->len) { /* before an array, its NPY header */
		size_t k = (size_t)MIN(n, head->len - at);

		memcpy(to, head->s + at, k);
		to = (char *)to + k;
		at += k;
		n -= k;
	}
	return n ? spool_read(&b->set->spool, b->part->offset + (at - head->len), to, n, err) : 0;
}

/* Arrays. */

/* Where a PNG is written: to memory, or to a file. */
struct png_out {
	struct str *text;
	int fd; /* -1: into text */
	uint64_t n;
	struct err err; /* set for failures outside libpng */
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
	/* No variable that is cleaned up by scope changes after this. */
	if (setjmp(png_jmpbuf(png))) { /* lint: setjmp because libpng reports errors so */
		png_destroy_write_struct(&png, &info);
		if (o->err.code)
			return err_pass(err, &o->err);
		return err_set(err, ERR_INVALID, "an array of %u x %u x %u can't be made a PNG",
			       p->width, p->height, p->channels);
	}
	png_set_write_fn(png, o, png_append, png_nothing);
	encode(png, info, s, part, rows, o);
	png_destroy_write_struct(&png, &info);
	return 0;
}

static int load_png(const struct set *s, const struct part *p, uint64_t most, struct str *out,
		    struct part_bytes *large, struct err *err)
{
	struct png_out o = { .text = out, .fd = -1 };

	if (p->pixels->bytes <= most)
		return add_png(s, p, &o, err);
	if (spool_file(s->splits[0].path, &o.fd, err) < 0)
		return -1;
	if (add_png(s, p, &o, err) < 0) {
		close(o.fd);
		return -1;
	}
	*large = (struct part_bytes){ s, p, o.fd, o.n };
	return 1;
}

int part_get(const struct set *s, const struct part *p, uint64_t most, struct str *out,
	     struct part_bytes *large, struct err *err)
{
	uint64_t n = p->pixels ? p->pixels->bytes + p->pixels->npy_header.len : p->n;

	if (p->pixels && p->pixels->png)
		return load_png(s, p, most, out, large, err);
	if (p->where == PART_MEMORY) {
		str_addn(out, p->at, p->n);
		return 0;
	}
	if (p->where != PART_SPOOL)
		return load_file(s, p, most, out, large, err);
	*large = (struct part_bytes){ s, p, -1, n };
	if (n > most)
		return 1;
	str_reserve(out, n);
	if (part_read(large, 0, out->s + out->len, n, err) < 0)
		return -1;
	out->len += n;
	out->s[out->len] = '\0';
	return 0;
}

int part_load(const struct set *s, const struct part *p, struct str *out, struct err *err)
{
	struct part_bytes never;

	return part_get(s, p, UINT64_MAX, out, &never, err);
}
