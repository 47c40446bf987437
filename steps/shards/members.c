/* steps/shards/members.c — libarchive with limits.
 *
 * A member_reader walks the archive once, from the front. next() reads headers until a regular file
 * comes; read() gives its bytes. A read gives at most the bytes that were asked for, so
 * check_unpacked() after each is early enough against bombs.
 *
 * Names are read as UTF-8 whatever the program's locale is: libarchive converts pax and zip names
 * to the locale's characters, so each call runs under C.UTF-8 (uselocale(), this thread only).
 *
 * Two things that libarchive doesn't report are found here. One is a tar that was cut between two
 * members: check_tar_end() looks for the end mark, only in a tar that isn't compressed, since a cut
 * compressed stream is an error by itself. The other is the hole at the end of a sparse member,
 * which is read as zeros.
 *
 * After an error `ended` is set and next() returns the end. The exception is an error about one
 * member alone (bad_member()): then `can_go_on` is set and next() continues after it.
 *
 * Only filters inside libarchive are allowed, as others would start programs. Callers use
 * shard_name_split() to check that a name is safe to unpack, and what it means. Nothing is ever
 * unpacked to a path.
 */
#include "steps/shards/members.h"

#include <archive.h>
#include <archive_entry.h>
#include <assert.h>
#include <fcntl.h>
#include <locale.h>
#include <string.h>
#include <sys/stat.h>
#include "base/mem.h"
#include "steps/shards/shards.h"

#define READ_BLOCK    (256 * KIB)
#define TAR_END_BYTES 1024 /* two zero blocks end a tar (POSIX.1-1988, 10.1.1) */

struct member_reader {
	char *path;
	struct member_limits limits;
	struct archive *a;
	struct archive_entry *entry;
	locale_t utf8;
	char *name;                            /* of the current member */
	uint64_t archive_bytes, unpacked, got; /* got: of the current member */
	bool can_go_on, ended, in_hole; /* in_hole: libarchive has no more of the current member */
};

/* Under C.UTF-8. */

static locale_t enter(struct member_reader *r)
{
	return r->utf8 ? uselocale(r->utf8) : (locale_t)0;
}

static void leave(const locale_t *before)
{
	if (*before)
		uselocale(*before);
}

#define WITH_UTF8(r)                                  \
	_cleanup_(leave) locale_t before_ = enter(r); \
	(void)before_

/* Errors. */

static int archive_error(struct member_reader *r, struct err *err)
{
	const char *why = archive_error_string(r->a);

	r->ended = true;
	if (r->name)
		return err_set(err, ERR_INVALID, "%s: damaged at or after `%.200s`: %s", r->path,
			       r->name, why ? why : "unknown damage");
	return err_set(err, ERR_INVALID, "%s: %s", r->path,
		       why ? why : "cannot be read as an archive");
}

static int bad_member(struct member_reader *r, const char *what, struct err *err)
{
	r->can_go_on = true;
	return err_set(err, ERR_INVALID, "%s: member `%.200s` %s", r->path, r->name, what);
}

/* The size in the header, else `unknown`. */
static uint64_t size_of(const struct member_reader *r, uint64_t unknown)
{
	return archive_entry_size_is_set(r->entry) ? (uint64_t)archive_entry_size(r->entry)
						   : unknown;
}

static bool is_tar(const struct member_reader *r)
{
	return (archive_format(r->a) & ARCHIVE_FORMAT_BASE_MASK) == ARCHIVE_FORMAT_TAR;
}

/* Opening. */

/* A tar that was cut between two members reads without error; only the end mark is missing. */
static int check_tar_end(struct member_reader *r, struct err *err)
{
	_cleanup_(fd_closep) int fd = -1;
	char tail[TAR_END_BYTES];

	if (archive_filter_code(r->a, 0) != ARCHIVE_FILTER_NONE || !is_tar(r))
		return 0;
	fd = open(r->path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_errno(err, "cannot read %s", r->path);
	if (r->archive_bytes % (TAR_END_BYTES / 2) == 0 && r->archive_bytes >= sizeof(tail) &&
	    pread(fd, tail, sizeof(tail), (off_t)(r->archive_bytes - sizeof(tail))) ==
		    sizeof(tail)) {
		size_t i = 0;

		while (i < sizeof(tail) && !tail[i])
			i++;
		if (i == sizeof(tail))
			return 0;
	}
	return err_set(err, ERR_INVALID, "%s: truncated: it has no end mark after `%.200s`",
		       r->path, r->name ? r->name : "nothing");
}

static int check_file(struct member_reader *r, struct err *err)
{
	struct stat st;

	if (stat(r->path, &st) < 0)
		return err_errno(err, "cannot read %s", r->path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_INVALID, "%s is not a file", r->path);
	if (st.st_size == 0)
		return err_set(err, ERR_INVALID, "%s is empty: no archive", r->path);
	r->archive_bytes = (uint64_t)st.st_size;
	return 0;
}

int member_reader_open(const char *path, const struct member_limits *l, struct member_reader **ret,
		       struct err *err)
{
	struct member_reader *r = xcalloc(1, sizeof(*r));

	r->path = xstrdup(path);
	r->limits = *l;
	r->utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
	WITH_UTF8(r);
	r->a = archive_read_new();
	if (!r->a)
		mem_die(0);
	/* Only what libarchive does by itself: some of its filters would start programs. */
	archive_read_support_filter_gzip(r->a);
	archive_read_support_filter_bzip2(r->a);
	archive_read_support_filter_xz(r->a);
	archive_read_support_filter_zstd(r->a);
	archive_read_support_format_tar(r->a);
	/* `cat a.tar b.tar`: the part after the first end mark is read, too. */
	archive_read_set_option(r->a, "tar", "read_concatenated_archives", "1");
	if (l->zip)
		archive_read_support_format_zip(r->a);
	if (check_file(r, err) < 0 ||
	    (archive_read_open_filename(r->a, path, READ_BLOCK) != ARCHIVE_OK &&
	     archive_error(r, err) < 0)) {
		leave(&before_);
		before_ = (locale_t)0;
		member_reader_free(r);
		return -1;
	}
	*ret = r;
	return 0;
}

void member_reader_free(struct member_reader *r)
{
	if (!r)
		return;
	archive_read_free(r->a);
	if (r->utf8)
		freelocale(r->utf8);
	free(r->name);
	free(r->path);
	free(r);
}

/* Members. */

static int check_entry(struct member_reader *r, struct err *err)
{
	if (archive_entry_hardlink(r->entry) || archive_entry_filetype(r->entry) == AE_IFLNK)
		return bad_member(r, "is a link: shards hold plain files only", err);
	if (archive_entry_filetype(r->entry) != AE_IFREG)
		return bad_member(r, "is not a plain file", err);
	if (archive_entry_is_encrypted(r->entry))
		return bad_member(r, "is encrypted", err);
	if (archive_entry_size_is_set(r->entry) &&
	    (uint64_t)archive_entry_size(r->entry) > r->limits.member_max)
		return bad_member(r, "is larger than the limit for one file", err);
	return 0;
}

static int next_header(struct member_reader *r, struct err *err)
{
	const char *name;

	switch (archive_read_next_header(r->a, &r->entry)) {
	case ARCHIVE_EOF:
		r->ended = true;
		return check_tar_end(r, err) < 0 ? -1 : 0;
	case ARCHIVE_OK:
	case ARCHIVE_WARN:
		break;
	default:
		return archive_error(r, err);
	}
	name = archive_entry_pathname(r->entry);
	/* libarchive puts ./ in front of each name (tar made by `tar c .`); it isn't part of the
	 * name. */
	while (name && name[0] == '.' && name[1] == '/')
		name += 2;
	free(r->name);
	r->name = xstrdup(name ? name : "?");
	if (!name)
		return bad_member(r, "has a name that is not UTF-8", err);
	return 1;
}

int member_reader_next(struct member_reader *r, const char **ret_name, uint64_t *ret_offset,
		       struct err *err)
{
	WITH_UTF8(r);
	int n;

	if (r->ended)
		return 0;
	r->can_go_on = false;
	r->got = 0;
	r->in_hole = false;
	do {
		n = next_header(r, err);
		if (n <= 0)
			return n;
	} while (archive_entry_filetype(r->entry) == AE_IFDIR);
	if (check_entry(r, err) < 0)
		return -1;
	*ret_name = r->name;
	*ret_offset = (uint64_t)archive_read_header_position(r->a);
	return 1;
}

bool member_reader_can_go_on(const struct member_reader *r)
{
	return r->can_go_on;
}

static int check_unpacked(struct member_reader *r, uint64_t member, struct err *err)
{
	const struct member_limits *l = &r->limits;

	if (member > l->member_max)
		return err_set(
			err, ERR_INVALID,
			"%s: member `%.200s` is larger than the limit for one file, %llu bytes",
			r->path, r->name, (unsigned long long)l->member_max);
	if (r->unpacked > l->total_max)
		return err_set(err, ERR_TOO_LARGE,
			       "%s: unpacks to more than the limit of %llu bytes (at `%.200s`)",
			       r->path, (unsigned long long)l->total_max, r->name);
	if (r->unpacked > l->ratio_from && r->unpacked / l->ratio_max > r->archive_bytes)
		return err_set(err, ERR_TOO_LARGE,
			       "%s: unpacks to more than %llu times its size (at `%.200s`): an "
			       "archive bomb?",
			       r->path, (unsigned long long)l->ratio_max, r->name);
	return 0;
}

/* libarchive reports LZMA's end mark, if nothing comes before it, as damage that ends all
 * reading. */
static bool is_empty_lzma(const struct member_reader *r)
{
	const char *format = archive_format_name(r->a);

	return format && str_has_prefix(format, "ZIP") && strstr(format, "(lzma)") &&
	       size_of(r, 1) == 0;
}

int member_reader_read(struct member_reader *r, void *to, size_t max, size_t *ret_n,
		       struct err *err)
{
	WITH_UTF8(r);
	la_ssize_t n;

	assert(r->name && max);
	r->can_go_on = false;
	n = r->in_hole || is_empty_lzma(r) ? 0 : archive_read_data(r->a, to, max);
	if (n < 0)
		return archive_error(r, err);
	if (n == 0) {
		uint64_t size = is_tar(r) ? size_of(r, 0) : 0;

		/* The hole at a sparse member's end, for which libarchive gives no bytes. Another
		 * call would start the member again. */
		r->in_hole = true;
		n = size > r->got ? (la_ssize_t)MIN(size - r->got, max) : 0;
		memset(to, 0, (size_t)n);
	}
	r->got += (uint64_t)n;
	r->unpacked += (uint64_t)n;
	if (check_unpacked(r, r->got, err) < 0) {
		r->ended = true;
		return -1;
	}
	*ret_n = (size_t)n;
	return n > 0;
}

int member_reader_data(struct member_reader *r, struct str *out, struct err *err)
{
	size_t n;
	int more;

	do {
		/* As much as the header promises and one more byte, which shouldn't exist; but
		 * never much at once, since the header may lie. */
		uint64_t size = size_of(r, UINT64_MAX - 1);
		size_t want =
			size < r->got ? READ_BLOCK : (size_t)MIN(size - r->got + 1, READ_BLOCK);

		str_reserve(out, want);
		more = member_reader_read(r, out->s + out->len, want, &n, err);
		if (more < 0)
			return -1;
		out->len += n;
	} while (more);
	out->s[out->len] = '\0';
	return 0;
}
