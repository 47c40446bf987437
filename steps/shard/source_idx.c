/* steps/shard/source_idx.c — IDX, the format of MNIST: arrays of one shape, one after the other.
 *
 * Big endian: two zero bytes, the type of elements, the number of dimensions, then each dimension
 * as 32 bits, then the elements (yann.lecun.com/exdb/mnist, "The IDX file format"). Either plain or
 * gzipped. NAME-images-idx3-ubyte goes with NAME-labels-idx1-ubyte; the key of the i-th array is
 * NAME/i with 8 digits, its label is the member cls.
 *
 * The header has the size of everything, so limits are checked before any array is read
 * (check_size()). All arrays of a file go to the spool raw, in one copy; a sample's part is an
 * offset there and a `struct pixels` that all of them share. part.c makes PNG or NPY of it when the
 * shard is written.
 *
 * A file that ends too early, or has bytes after its last array, is an error, never a bad sample:
 * nothing in it could be trusted then. One thread.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>
#include "base/os/fs.h"
#include "base/table/npy.h"
#include "steps/shard/internal.h"

#define DIMENSIONS_MAX 8
#define COPY_STEP      (256 * KIB)
#define RATIO_FROM     (64 * MIB)

struct idx {
	const char *path;
	gzFile gz;
	uint8_t type, n_dims;
	uint32_t dims[DIMENSIONS_MAX];
	uint64_t item_bytes;
};

static const struct {
	uint8_t type, bytes;
	const char *descr;
} types[] = {
	{ 0x08, 1, "|u1" }, { 0x09, 1, "|i1" }, { 0x0b, 2, ">i2" },
	{ 0x0c, 4, ">i4" }, { 0x0d, 4, ">f4" }, { 0x0e, 8, ">f8" },
};

static void idx_close(struct idx *x)
{
	if (x->gz)
		gzclose(x->gz);
	x->gz = NULL;
}

/* Header. */

static int idx_read(struct idx *x, void *to, size_t n, struct err *err)
{
	for (size_t done = 0; done < n;) {
		size_t step = MIN(n - done, COPY_STEP);
		int got = gzread(x->gz, (char *)to + done, (unsigned)step), code;

		done += step;
		if (got >= 0 && (size_t)got == step)
			continue;
		gzerror(x->gz, &code);
		return err_set(err, ERR_INVALID, "%s: %s", x->path,
			       got < 0 && code != Z_BUF_ERROR
				       ? "its gzip stream is damaged"
				       : "truncated: it ends before its last array");
	}
	return 0;
}

/* `what`: the file's items. */
static int idx_end(struct idx *x, const char *what, struct err *err)
{
	char more;

	return gzread(x->gz, &more, 1) != 0
		       ? err_set(err, ERR_INVALID, "%s: goes on after its last %s", x->path, what)
		       : 0;
}

static const char *descr_of(uint8_t type, uint64_t *ret_bytes)
{
	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (types[i].type == type) {
			*ret_bytes = types[i].bytes;
			return types[i].descr;
		}
	return NULL;
}

static int check_size(const struct set *s, const struct idx *x, struct err *err)
{
	uint64_t total;
	struct stat st;

	if (x->item_bytes > s->with.max.file)
		return err_set(err, ERR_INVALID, "%s: its arrays are larger than max_file",
			       x->path);
	if (__builtin_mul_overflow(x->item_bytes, (uint64_t)x->dims[0], &total) ||
	    total > s->with.max.unpacked)
		return err_set(err, ERR_INVALID, "%s: its arrays are larger than max_unpacked",
			       x->path);
	if (stat(x->path, &st) < 0)
		return err_errno(err, "cannot read %s", x->path);
	if (total > RATIO_FROM && total / s->with.max.ratio > (uint64_t)st.st_size)
		return err_set(
			err, ERR_INVALID,
			"%s: unpacks to more than %llu times its size: truncated, or a bomb?",
			x->path, (unsigned long long)s->with.max.ratio);
	return 0;
}

/* Reads the header. The caller closes it, also after an error. */
static int idx_open(struct idx *x, const struct set *s, const char *path, struct err *err)
{
	uint8_t head[4], dim[4];

	*x = (struct idx){ .path = path, .gz = gzopen(path, "rbe") };
	if (!x->gz)
		return err_errno(err, "cannot read %s", path);
	gzbuffer(x->gz, COPY_STEP);
	if (idx_read(x, head, 4, err) < 0)
		return -1;
	if (head[0] || head[1] || !descr_of(head[2], &x->item_bytes) || !head[3] ||
	    head[3] > DIMENSIONS_MAX)
		return err_set(err, ERR_INVALID,
			       "%s is no IDX file: it begins with %02x%02x%02x%02x", x->path,
			       head[0], head[1], head[2], head[3]);
	x->type = head[2];
	x->n_dims = head[3];
	for (size_t i = 0; i < x->n_dims; i++) {
		if (idx_read(x, dim, 4, err) < 0)
			return -1;
		x->dims[i] = (uint32_t)dim[0] << 24 | (uint32_t)dim[1] << 16 |
			     (uint32_t)dim[2] << 8 | dim[3];
		if (i && (!x->dims[i] || __builtin_mul_overflow(x->item_bytes, (uint64_t)x->dims[i],
								&x->item_bytes)))
			return err_set(err, ERR_INVALID,
				       "%s: the shape of its arrays is impossible: a dimension is "
				       "0, or the size is too large",
				       x->path);
	}
	return check_size(s, x, err);
}

/* Arrays. */

static int make_pixels(struct set *s, const struct idx *x, const struct pixels **ret,
		       struct err *err)
{
	struct pixels *p = arena_alloc(s->arena, sizeof(*p));
	uint64_t shape[DIMENSIONS_MAX], ignored;
	struct str header = { 0 };

	p->bytes = x->item_bytes;
	p->png = s->with.idx_png;
	p->channels = x->n_dims == 4 ? x->dims[3] : 1;
	p->height = x->n_dims > 1 ? x->dims[1] : 0;
	p->width = x->n_dims > 2 ? x->dims[2] : 0;
	*ret = p;
	if (p->png && (x->type != 0x08 || x->n_dims < 3 || x->n_dims > 4 ||
		       (p->channels != 1 && p->channels != 3) || MAX(p->width, p->height) > 65535))
		return err_set(
			err, ERR_INVALID,
			"%s: only grey or RGB images of 8 bits can be PNG; say `idx_as: npy`",
			x->path);
	for (size_t i = 1; i < x->n_dims; i++)
		shape[i - 1] = x->dims[i];
	npy_add_header(&header, descr_of(x->type, &ignored), shape, (unsigned)x->n_dims - 1);
	p->npy_header.s = arena_memdup(s->arena, header.s, header.len);
	p->npy_header.len = header.len;
	str_deinit(&header);
	return 0;
}

static int copy_to_spool(struct set *s, struct idx *x, uint64_t n, struct err *err)
{
	_cleanup_(freep) char *buf = xmalloc(COPY_STEP);

	for (uint64_t done = 0; done < n;) {
		size_t step = (size_t)MIN(n - done, COPY_STEP);

		if (idx_read(x, buf, step, err) < 0 || spool_add(&s->spool, buf, step, err) < 0)
			return -1;
		done += step;
	}
	return idx_end(x, "array", err);
}

static int add_arrays(struct set *s, struct idx *x, const char *name, const uint8_t *labels,
		      struct err *err)
{
	uint64_t at = s->spool.size;
	const struct pixels *p;

	if (make_pixels(s, x, &p, err) < 0 ||
	    copy_to_spool(s, x, x->item_bytes * x->dims[0], err) < 0 ||
	    spool_flush(&s->spool, err) < 0)
		return -1;
	for (uint32_t i = 0; i < x->dims[0]; i++) {
		char key[SHARD_NAME_MAX], label[8];
		struct part parts[2] = { { .field = p->png ? "png" : "npy",
					   .where = PART_SPOOL,
					   .offset = at + i * x->item_bytes,
					   .n = x->item_bytes,
					   .pixels = p } };
		struct draft d = { .key = key, .parts = parts, .n_parts = labels ? 2 : 1 };

		snprintf(key, sizeof(key), "%s/%08u", name, i);
		if (labels && set_part(s, "cls", label,
				       (size_t)snprintf(label, sizeof(label), "%u", labels[i]),
				       &parts[1], err) < 0)
			return -1;
		if (set_add(s, &d, err) < 0)
			return -1;
		step_progress(i + 1, x->dims[0], "arrays read");
	}
	return 0;
}

/* Files. */

/* "train" of "train-images-idx3-ubyte.gz"; NULL for another form of name. */
static char *name_before(const char *path, const char *what)
{
	const char *base = fs_basename(path), *at = strstr(base, what);

	return at && at > base && strchr("-._", at[-1]) ? xstrndup(base, (size_t)(at - 1 - base))
							: NULL;
}

static int read_labels(struct set *s, const char *path, uint32_t want, uint8_t **ret,
		       struct err *err)
{
	_cleanup_(idx_close) struct idx x = { 0 };

	if (idx_open(&x, s, path, err) < 0)
		return -1;
	if (x.type != 0x08 || x.n_dims != 1)
		return err_set(err, ERR_INVALID, "%s: labels are one dimension of bytes", path);
	if (x.dims[0] != want)
		return err_set(err, ERR_INVALID, "%s has %u labels, but there are %u arrays", path,
			       x.dims[0], want);
	*ret = xmalloc(want);
	return idx_read(&x, *ret, want, err) < 0 ? -1 : idx_end(&x, "label", err);
}

static int read_arrays(struct set *s, const struct input *in, const char *path, struct err *err)
{
	_cleanup_(freep) char *name = name_before(path, "images");
	const char *base = fs_basename(path), *labels_path = NULL;
	_cleanup_(freep) uint8_t *labels = NULL;
	_cleanup_(idx_close) struct idx x = { 0 };

	for (size_t i = 0; name && !labels_path && i < in->n; i++) {
		_cleanup_(freep) char *other = name_before(in->files[i].path, "labels");

		if (other && strcmp(other, name) == 0)
			labels_path = in->files[i].path;
	}
	if (!name)
		name = xstrndup(base, strcspn(base, "."));
	if (idx_open(&x, s, path, err) < 0)
		return -1;
	if (labels_path && read_labels(s, labels_path, x.dims[0], &labels, err) < 0)
		return -1;
	return add_arrays(s, &x, name, labels, err);
}

int source_idx(struct set *s, const struct input *in, struct err *err)
{
	size_t arrays = 0;

	for (size_t i = 0; i < in->n; i++) {
		_cleanup_(freep) char *labels_of = name_before(in->files[i].path, "labels");

		if (labels_of)
			continue;
		arrays++;
		if (read_arrays(s, in, in->files[i].path, err) < 0)
			return -1;
	}
	return arrays ? 0 : err_set(err, ERR_INVALID, "%s holds labels only: no arrays", in->root);
}
