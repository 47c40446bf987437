/* steps/shards/writer.c — writes tar by hand.
 *
 * The bytes are part of what a cache key promises, so they must not depend on the version of a
 * library: every header is made here, as POSIX ustar defines it, with a pax header before it only
 * for a name that ustar can't hold. (zstd's bytes do depend on its version.)
 *
 * Bytes go one way: put() → `buf` → flush() → zstd, if any → file and digest. Data larger than the
 * buffer bypasses it, unless another thread hashes (`hasher`): then everything goes through the
 * hasher's buffers, because the bytes must stay until they are hashed. A compressed shard is hashed
 * as it is written, by the same thread.
 *
 * Invariants: `offset` counts the bytes of the tar before compression and is a multiple of
 * USTAR_BLOCK between members; `written` counts the bytes of the file. The file has a temporary
 * name until finish() renames it, so a shard that exists is whole.
 *
 * One thread at a time uses a writer. Nothing is fsynced: outputs become durable when the engine
 * puts them into the store. A sample is checked as a whole before its first byte is written
 * (shard_check_sample()), so a refused sample leaves nothing behind.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <zstd.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "base/ustar.h"
#include "steps/shards/hasher.h"
#include "steps/shards/shards.h"

#define BUFFER_BYTES (512 * KIB)
#define READ_STEP    (256 * KIB)

struct shard_writer {
	char *path, *temp;
	int fd;
	struct digester *sha;
	struct hasher *hasher; /* replaces sha when not compressed; NULL: none */
	ZSTD_CCtx *zstd;       /* NULL: not compressed */
	char *buf, *packed;    /* buf: the hasher's, if there is one */
	size_t buffered, packed_size;
	uint64_t offset; /* in the tar */
	struct shard_written written;
};

/* Bytes on their way to the file. */

static int put_file(struct shard_writer *w, const void *bytes, size_t n, struct err *err)
{
	if (fs_write_all(w->fd, bytes, n, err) < 0)
		return err_wrap(err, "writing %s", w->path);
	if (!w->hasher)
		digester_update(w->sha, bytes, n);
	w->written.bytes += n;
	return 0;
}

static int put_packed(struct shard_writer *w, const void *bytes, size_t n, ZSTD_EndDirective end,
		      struct err *err)
{
	ZSTD_inBuffer in = { bytes, n, 0 };
	size_t left;

	do {
		ZSTD_outBuffer out = { w->packed, w->packed_size, 0 };

		left = ZSTD_compressStream2(w->zstd, &out, &in, end);
		if (ZSTD_isError(left))
			return err_set(err, ERR_IO, "writing %s: zstd: %s", w->path,
				       ZSTD_getErrorName(left));
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

static int put(struct shard_writer *w, const void *bytes, size_t n, struct err *err)
{
	w->offset += n;
	while (w->hasher && n) {
		size_t step = MIN(n, BUFFER_BYTES - w->buffered);

		memcpy(w->buf + w->buffered, bytes, step);
		w->buffered += step;
		bytes = (const char *)bytes + step;
		n -= step;
		if (w->buffered == BUFFER_BYTES && flush(w, err) < 0)
			return -1;
	}
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
	static const char zeros[USTAR_BLOCK];

	return put(w, zeros, (USTAR_BLOCK - w->offset % USTAR_BLOCK) % USTAR_BLOCK, err);
}

/* Members. */

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

static int put_field(struct shard_writer *w, const struct shard_field *f, struct err *err)
{
	_cleanup_(freep) char *step = f->read ? xmalloc(READ_STEP) : NULL;

	if (!f->read)
		return put(w, f->data, f->n, err);
	for (uint64_t at = 0; at < f->n; at += READ_STEP) {
		size_t n = (size_t)MIN(f->n - at, READ_STEP);

		if (f->read(f->arg, at, step, n, err) < 0 || put(w, step, n, err) < 0)
			return -1;
	}
	return 0;
}

static int put_member(struct shard_writer *w, const struct str *name, const struct shard_field *f,
		      struct err *err)
{
	struct ustar h = { 0 };
	size_t prefix, at = 0, n = name->len;

	if (!ustar_split(name->s, name->len, &prefix)) {
		_cleanup_(str_deinit) struct str pax = { 0 };
		struct ustar head = { .name = "././@PaxHeader" };

		ustar_add_record(&pax, "path", name->s, name->len);
		ustar_seal(&head, 'x', 0644, pax.len);
		if (put(w, &head, sizeof(head), err) < 0 || put(w, pax.s, pax.len, err) < 0 ||
		    pad(w, err) < 0)
			return -1;
		n = sizeof(h.name); /* only readers that don't know pax use it */
	} else if (prefix) {
		memcpy(h.prefix, name->s, prefix);
		at = prefix + 1;
		n -= at;
	}
	memcpy(h.name, name->s + at, n);
	ustar_seal(&h, '0', 0644, f->n);
	if (put(w, &h, sizeof(h), err) < 0 || put_field(w, f, err) < 0)
		return -1;
	return pad(w, err);
}

int shard_check_sample(const char *key, const struct shard_field *fields, size_t n, struct err *err)
{
	uint64_t sum = 0;

	if (n > SHARD_FIELDS_MAX)
		return err_set(err, ERR_TOO_LARGE,
			       "sample `%.200s` has %zu fields; a shard holds at most %d of one",
			       key, n, SHARD_FIELDS_MAX);
	for (size_t i = 0; i < n; i++) {
		if (shard_check_name(key, fields[i].name, err) < 0)
			return -1;
		for (size_t k = 0; k < i; k++)
			if (strcmp(fields[k].name, fields[i].name) == 0)
				return err_set(err, ERR_INVALID,
					       "sample `%.200s` has the field `%.100s` twice", key,
					       fields[i].name);
		if (fields[i].n > SHARD_MEMBER_MAX)
			return err_set(err, ERR_TOO_LARGE,
				       "`%.200s.%.100s` is larger than a member of a shard may be",
				       key, fields[i].name);
		sum += fields[i].n; /* for 1,024 fields of 4 GiB: far below 2^64 */
	}
	if (sum > SHARD_SAMPLE_MAX)
		return err_set(err, ERR_TOO_LARGE,
			       "sample `%.200s` is larger than a sample may be: %llu bytes of at "
			       "most %llu",
			       key, (unsigned long long)sum, (unsigned long long)SHARD_SAMPLE_MAX);
	return 0;
}

int shard_writer_add(struct shard_writer *w, const char *key, const struct shard_field *fields,
		     size_t n, uint64_t *ret_offset, struct err *err)
{
	_cleanup_(str_deinit) struct str name = { 0 };
	uint64_t offset = w->offset;

	assert(offset % USTAR_BLOCK == 0);
	if (shard_check_sample(key, fields, n, err) < 0)
		return -1;
	str_addf(&name, "%s.", key);
	for (size_t i = 0; i < n; i++) {
		name.len = strlen(key) + 1;
		str_add(&name, fields[i].name);
		if (put_member(w, &name, &fields[i], err) < 0)
			return -1;
	}
	w->written.samples++;
	if (ret_offset)
		*ret_offset = offset;
	return 0;
}

/* Life cycle. */

int shard_writer_open(const char *path, const struct shard_writer_options *o,
		      struct shard_writer **ret, struct err *err)
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
	static const char end[2 * USTAR_BLOCK];
	int fd;

	if (put(w, end, sizeof(end), err) < 0 || flush(w, err) < 0 ||
	    (w->zstd && put_packed(w, NULL, 0, ZSTD_e_end, err) < 0))
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
