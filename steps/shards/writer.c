/* steps/shards/writer.c — tar, written out by hand.
 *
 * The bytes are part of what a cache key promises, so they must not depend on the version of a library: every header is laid out here, as POSIX
 * ustar has it, with a pax header before it only for a name that ustar can't hold. Data goes through one buffer, which is hashed when it is
 * written; what is larger than the buffer goes around it, unless another thread hashes: that one needs it to stay.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <zstd.h>
#include "base/fs.h"
#include "base/mem.h"
#include "steps/shards/hasher.h"
#include "steps/shards/shards.h"

#define BLOCK 512
#define BUFFER_BYTES (512 * KIB)
#define READ_STEP (256 * KIB)

struct shard_writer {
	char *path, *temp;
	int fd;
	struct digester *sha;
	struct hasher *hasher; /* instead of sha, when not compressed; NULL: none */
	ZSTD_CCtx *zstd; /* NULL: not compressed */
	char *buf, *packed; /* buf: the hasher's, when there is one */
	size_t buffered, packed_size;
	uint64_t offset; /* in the tar */
	struct shard_written written;
};

/* --- bytes on their way to the file ------------------------------------------------------------------------------------------------ */

static int put_file(struct shard_writer *w, const void *bytes, size_t n, struct err *err)
{
	if (fs_write_all(w->fd, bytes, n, err) < 0)
		return err_wrap(err, "writing %s", w->path);
	if (!w->hasher)
		digester_update(w->sha, bytes, n);
	w->written.bytes += n;
	return 0;
}

static int put_packed(struct shard_writer *w, const void *bytes, size_t n, ZSTD_EndDirective end, struct err *err)
{
	ZSTD_inBuffer in = { bytes, n, 0 };
	size_t left;

	do {
		ZSTD_outBuffer out = { w->packed, w->packed_size, 0 };

		left = ZSTD_compressStream2(w->zstd, &out, &in, end);
		if (ZSTD_isError(left))
			return err_set(err, ERR_IO, "writing %s: zstd: %s", w->path, ZSTD_getErrorName(left));
		if (put_file(w, w->packed, out.pos, err) < 0)
			return -1;
	} while (in.pos < in.size || (end == ZSTD_e_end && left));
	return 0;
}

static int put_through(struct shard_writer *w, const void *bytes, size_t n, struct err *err)
{
	return w->zstd ? put_packed(w, bytes, n, ZSTD_e_continue, err) : put_file(w, bytes, n, err);
}

static int flush(struct shard_writer *w, struct err *err)
{
	size_t n = w->buffered;

	w->buffered = 0;
	if (!n)
		return 0;
	if (put_through(w, w->buf, n, err) < 0)
		return -1;
	if (w->hasher) {
		hasher_push(w->hasher, n);
		w->buf = hasher_buffer(w->hasher);
	}
	return 0;
}

static int put_in_steps(struct shard_writer *w, const char *bytes, size_t n, struct err *err)
{
	while (n) {
		size_t step = MIN(n, BUFFER_BYTES - w->buffered);

		memcpy(w->buf + w->buffered, bytes, step);
		w->buffered += step;
		bytes += step;
		n -= step;
		if (w->buffered == BUFFER_BYTES && flush(w, err) < 0)
			return -1;
	}
	return 0;
}

static int put(struct shard_writer *w, const void *bytes, size_t n, struct err *err)
{
	w->offset += n;
	if (w->hasher)
		return put_in_steps(w, bytes, n, err);
	if (n > BUFFER_BYTES - w->buffered && flush(w, err) < 0)
		return -1;
	if (n > BUFFER_BYTES)
		return put_through(w, bytes, n, err);
	if (n)
		memcpy(w->buf + w->buffered, bytes, n);
	w->buffered += n;
	return 0;
}

static int pad(struct shard_writer *w, struct err *err)
{
	static const char zeros[BLOCK];

	return put(w, zeros, (BLOCK - w->offset % BLOCK) % BLOCK, err);
}

/* --- headers ---------------------------------------------------------------------------------------------------------------------- */

/* POSIX.1-1988 10.1.1. */
struct ustar {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, linkname[100], magic[6], version[2], uname[32], gname[32],
		major[8], minor[8], prefix[155], unused[12];
};
_Static_assert(sizeof(struct ustar) == BLOCK, "a tar header is one block");

static int put_header(struct shard_writer *w, char type, const char *name, size_t name_len, const char *prefix, size_t prefix_len, uint64_t size,
		      struct err *err)
{
	struct ustar h = { .mode = "0000644", .uid = "0000000", .gid = "0000000", .mtime = "00000000000", .type = type, .magic = "ustar",
			   .version = "00", .major = "0000000", .minor = "0000000" };
	unsigned sum = 0;

	memcpy(h.name, name, name_len);
	if (prefix_len)
		memcpy(h.prefix, prefix, prefix_len);
	for (int i = 10; i >= 0; i--, size >>= 3)
		h.size[i] = (char)('0' + (size & 7));
	memset(h.checksum, ' ', sizeof(h.checksum));
	for (size_t i = 0; i < sizeof(h); i++)
		sum += ((const unsigned char *)&h)[i];
	for (int i = 5; i >= 0; i--, sum >>= 3)
		h.checksum[i] = (char)('0' + (sum & 7));
	h.checksum[6] = '\0';
	return put(w, &h, sizeof(h), err);
}

/* Where ustar would cut a name in prefix and name; false when it can't hold it. */
static bool ustar_split(const char *name, size_t n, size_t *ret_prefix)
{
	*ret_prefix = 0;
	if (n <= 100)
		return true;
	for (size_t i = n - 101; i < n && i <= 155; i++)
		if (name[i] == '/' && i > 0 && i + 1 < n) {
			*ret_prefix = i;
			return true;
		}
	return false;
}

/* "27 path=...\n": the number counts itself (POSIX.1-2001, pax, "pax Extended Header"). */
static void pax_record(struct str *out, const char *name, size_t n)
{
	size_t rest = strlen(" path=\n") + n, digits = 1;

	while ((size_t)snprintf(NULL, 0, "%zu", rest + digits) > digits)
		digits++;
	str_addf(out, "%zu path=", rest + digits);
	str_addn(out, name, n);
	str_addc(out, '\n');
}

static int put_field(struct shard_writer *w, const struct shard_field *f, struct err *err)
{
	_cleanup_(freep) char *step = NULL;
	int r = 0;

	if (!f->read)
		return put(w, f->data, f->n, err);
	step = xmalloc(READ_STEP);
	for (uint64_t at = 0; at < f->n && r == 0; at += READ_STEP) {
		size_t n = (size_t)MIN(f->n - at, READ_STEP);

		r = f->read(f->arg, at, step, n, err);
		if (r == 0)
			r = put(w, step, n, err);
	}
	return r;
}

static int put_member(struct shard_writer *w, const struct str *name, const struct shard_field *f, struct err *err)
{
	_cleanup_(str_deinit) struct str pax = { 0 };
	const char *short_name = name->s;
	size_t prefix, n = name->len;

	if (!ustar_split(name->s, name->len, &prefix)) {
		static const char pax_name[] = "././@PaxHeader";

		pax_record(&pax, name->s, name->len);
		if (put_header(w, 'x', pax_name, sizeof(pax_name) - 1, NULL, 0, pax.len, err) < 0 || put(w, pax.s, pax.len, err) < 0 || pad(w, err) < 0)
			return -1;
		n = 100; /* only old readers look at it */
	} else if (prefix) {
		short_name += prefix + 1;
		n -= prefix + 1;
	}
	if (put_header(w, '0', short_name, n, name->s, prefix, f->n, err) < 0 || put_field(w, f, err) < 0)
		return -1;
	return pad(w, err);
}

static int check_names(const struct str *name, const char *key, const struct shard_field *fields, size_t i, struct err *err)
{
	size_t key_len;

	if (shard_name_split(name->s, &key_len, err) != 0)
		return -1;
	if (key_len != strlen(key))
		return err_set(err, ERR_INVALID, "the key `%.200s` has a dot after its last slash, where a reader would cut it", key);
	for (size_t k = 0; k < i; k++)
		if (strcmp(fields[k].name, fields[i].name) == 0)
			return err_set(err, ERR_INVALID, "sample `%.200s` has the field `%.100s` twice", key, fields[i].name);
	return 0;
}

int shard_writer_add(struct shard_writer *w, const char *key, const struct shard_field *fields, size_t n, uint64_t *ret_offset, struct err *err)
{
	_cleanup_(str_deinit) struct str name = { 0 };
	uint64_t offset = w->offset;

	str_addf(&name, "%s.", key);
	for (size_t i = 0; i < n; i++) {
		name.len = strlen(key) + 1;
		str_add(&name, fields[i].name);
		if (check_names(&name, key, fields, i, err) < 0)
			return -1;
		if (fields[i].n > SHARD_MEMBER_MAX)
			return err_set(err, ERR_TOO_LARGE, "`%.200s` is larger than a member of a shard may be", name.s);
		if (put_member(w, &name, &fields[i], err) < 0)
			return -1;
	}
	w->written.samples++;
	if (ret_offset)
		*ret_offset = offset;
	return 0;
}

/* --- life ------------------------------------------------------------------------------------------------------------------------- */

int shard_writer_open(const char *path, const struct shard_writer_options *o, struct shard_writer **ret, struct err *err)
{
	struct shard_writer *w = xcalloc(1, sizeof(*w));

	w->fd = -1;
	w->path = xstrdup(path);
	if (fs_temp_at(AT_FDCWD, path, 0644, &w->fd, &w->temp, err) < 0) {
		shard_writer_free(w);
		return -1;
	}
	w->sha = digester_new();
	if (o && o->hash_apart && !o->zstd_level)
		w->hasher = hasher_new(BUFFER_BYTES);
	w->buf = w->hasher ? hasher_buffer(w->hasher) : xmalloc(BUFFER_BYTES);
	if (o && o->zstd_level) {
		w->zstd = ZSTD_createCCtx();
		if (!w->zstd)
			mem_die(0);
		ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_compressionLevel, o->zstd_level);
		ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_checksumFlag, 1);
		w->packed_size = ZSTD_CStreamOutSize();
		w->packed = xmalloc(w->packed_size);
	}
	*ret = w;
	return 0;
}

uint64_t shard_writer_size(const struct shard_writer *w)
{
	return w->offset;
}

void shard_writer_free(struct shard_writer *w)
{
	if (!w)
		return;
	if (w->fd >= 0)
		close(w->fd);
	if (w->temp)
		unlink(w->temp);
	digester_free(w->sha);
	ZSTD_freeCCtx(w->zstd);
	if (!w->hasher)
		free(w->buf);
	hasher_free(w->hasher);
	free(w->packed);
	free(w->temp);
	free(w->path);
	free(w);
}

static int finish(struct shard_writer *w, struct err *err)
{
	static const char end[2 * BLOCK];
	int fd;

	if (put(w, end, sizeof(end), err) < 0 || flush(w, err) < 0 || (w->zstd && put_packed(w, NULL, 0, ZSTD_e_end, err) < 0))
		return -1;
	fd = TAKE_FD(w->fd);
	if (close(fd) < 0)
		return err_errno(err, "writing %s", w->path);
	if (rename(w->temp, w->path) < 0)
		return err_errno(err, "cannot name %s", w->path);
	free(TAKE_PTR(w->temp));
	if (w->hasher)
		hasher_final(w->hasher, &w->written.sha256);
	else
		digester_final(w->sha, &w->written.sha256);
	return 0;
}

int shard_writer_close(struct shard_writer *w, struct shard_written *ret, struct err *err)
{
	int r = finish(w, err);

	if (r == 0 && ret)
		*ret = w->written;
	shard_writer_free(w);
	return r;
}
