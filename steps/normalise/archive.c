/* steps/normalise/archive.c — tar and zip: members by name.
 *
 * libarchive unpacks both archives from memory (unpack()): facts of members into a list, all
 * contents one after the other into one spool (struct unpacked). The lists are sorted by name, then
 * compared in step (judge()). Of several members with one name (tar allows it) the first is
 * compared with the first, and so on. Contents that differ are normalised again by
 * normalise_spans().
 *
 * Two kinds of facts: those that count (facts_differ()) and those that don't, of which the first of
 * each kind is noted for `detail` (note_ignored()).
 *
 * Every byte of the archive must belong to a member: check_fill() and normalise_check_zeros() check
 * that for a tar, layout.c for a zip. Otherwise the file isn't normalised.
 *
 * Bounds: NORMALISE_MEMBERS_MAX, NAMES_MAX, and the job's bytes_max for all unpacked bytes,
 * including zeros of holes. One thread, one job.
 */
#include <archive.h>
#include <archive_entry.h>
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include "base/crypto/digest.h"
#include "steps/normalise/normalise.h"

#define NAMES_MAX (256 * MIB)

struct member {
	const char *name, *target; /* target: of a link; or NULL */
	mode_t kind;
	const char *user, *group;
	bool executable, hard;
	mode_t mode;
	int64_t mtime, uid, gid;
	dev_t device;
	struct digest attributes; /* extended ones, access lists, flags, pax records */
	uint64_t at, n;           /* of its content in the spool */
	size_t place;             /* index in the archive */
};

struct members {
	VEC(struct member) list;
	struct unpacked spool;
	struct arena *arena;
	struct str facts; /* of a zip: its comments and extra fields */
};

/* Unpacking. */

static int add_zeros(struct unpacked *to, uint64_t n, struct err *err)
{
	static const char zeros[64 * KIB];

	if (n > to->job->bytes_max - to->job->bytes) /* before anything is written to the disk */
		return err_set(err, ERR_TOO_LARGE, "more than %llu bytes unpacked",
			       (unsigned long long)to->job->bytes_max);
	for (; n; n -= MIN(n, sizeof(zeros)))
		if (unpacked_add(to, zeros, MIN(n, sizeof(zeros)), err) < 0)
			return -1;
	return 0;
}

static int archive_error(struct archive *a, struct err *err)
{
	const char *why = archive_error_string(a);

	return err_set(err, ERR_INVALID, "%s", why ? why : "it can't be read");
}

/* `least`: the size in the header; libarchive has no block for a hole at the end. */
static int add_content(struct archive *a, struct unpacked *to, uint64_t least, uint64_t *ret_n,
		       struct err *err)
{
	const void *p;
	size_t n;
	la_int64_t at;
	uint64_t len = 0;
	int r;

	while ((r = archive_read_data_block(a, &p, &n, &at)) == ARCHIVE_OK) {
		if (at < 0 || (uint64_t)at < len)
			return err_set(err, ERR_INVALID, "its parts overlap");
		if (add_zeros(to, (uint64_t)at - len, err) < 0) /* a hole */
			return -1;
		if (n && unpacked_add(to, p, n, err) < 0)
			return -1;
		len = (uint64_t)at + n;
	}
	if (r == ARCHIVE_EOF && len < least) {
		if (add_zeros(to, least - len, err) < 0)
			return -1;
		len = least;
	}
	*ret_n = len;
	return r == ARCHIVE_EOF ? 0 : archive_error(a, err);
}

static void digest_attributes(struct archive_entry *e, const struct str *more, struct digest *ret)
{
	_cleanup_(str_deinit) struct str s = { 0 };
	unsigned long set = 0, clear = 0;
	const void *value;
	const char *name;
	size_t n;
	char *acl;

	archive_entry_xattr_reset(e);
	while (archive_entry_xattr_next(e, &name, &value, &n) == ARCHIVE_OK) {
		str_add_field(&s, name, strlen(name));
		str_add_field(&s, value, n);
	}
	acl = archive_entry_acl_types(e) ? archive_entry_acl_to_text(e, NULL, 0) : NULL;
	str_add_field(&s, acl ? acl : "", acl ? strlen(acl) : 0);
	free(acl);
	archive_entry_fflags(e, &set, &clear);
	str_add_u64(&s, set);
	str_addn(&s, more->len ? more->s : "", more->len);
	digest_bytes(s.s, s.len, ret);
}

static const char *copy(struct members *m, const char *s)
{
	return arena_strdup(m->arena, s ? s : "");
}

static int add_member(struct members *m, struct archive *a, struct archive_entry *e, struct span s,
		      bool zip, struct err *err)
{
	_cleanup_(str_deinit) struct str more = { 0 };
	uint64_t least = !zip && archive_entry_size_is_set(e) ? (uint64_t)archive_entry_size(e) : 0;
	const char *name = archive_entry_pathname(e), *hard = archive_entry_hardlink(e),
		   *soft = archive_entry_symlink(e);
	struct member *one;

	if (m->list.n == NORMALISE_MEMBERS_MAX || arena_bytes(m->arena) > NAMES_MAX)
		return err_set(err, ERR_TOO_LARGE, "more members than can be compared");
	if (!name)
		return err_set(err, ERR_INVALID, "a member's name can't be read");
	one = VEC_ADD(&m->list);
	*one = (struct member){ .name = arena_strdup(m->arena, name),
				.kind = hard ? S_IFREG : archive_entry_filetype(e),
				.hard = hard,
				.mode = archive_entry_perm(e),
				.mtime = archive_entry_mtime(e),
				.at = m->spool.len,
				.place = m->list.n - 1,
				.uid = archive_entry_uid(e),
				.gid = archive_entry_gid(e),
				.user = copy(m, archive_entry_uname(e)),
				.group = copy(m, archive_entry_gname(e)) };
	if (one->kind == S_IFCHR || one->kind == S_IFBLK)
		one->device = archive_entry_rdev(e);
	if (!zip &&
	    normalise_tar_facts(s, (uint64_t)archive_read_header_position(a), &more, err) < 0)
		return -1;
	digest_attributes(e, &more, &one->attributes);
	one->executable = one->kind == S_IFREG && one->mode & 0100;
	if (hard || soft)
		one->target = arena_strdup(m->arena, hard ? hard : soft);
	return one->kind == S_IFREG && !hard ? add_content(a, &m->spool, least, &one->n, err) : 0;
}

static int by_name(const void *pa, const void *pb)
{
	const struct member *a = pa, *b = pb;
	int r = strcmp(a->name, b->name);

	return r ? r : a->place < b->place ? -1 : 1;
}

/* A tar's members are filled up with zeros to blocks of 512 bytes; `*fill` of them end before this
 * header. */
static int check_fill(struct archive *a, struct archive_entry *e, struct span s, uint64_t *fill,
		      struct err *err)
{
	uint64_t at = (uint64_t)archive_read_header_position(a);
	int r = normalise_check_zeros(s, at - MIN(at, *fill), at, err);

	*fill = e && archive_entry_size_is_set(e) && !archive_entry_sparse_count(e)
			? -(uint64_t)archive_entry_size(e) % 512
			: 0;
	return r;
}

static int read_all(struct members *m, struct archive *a, struct span s, bool zip, struct err *err)
{
	struct archive_entry *e;
	uint64_t fill = 0;
	int r;

	while ((r = archive_read_next_header(a, &e)) == ARCHIVE_OK || r == ARCHIVE_WARN)
		if ((!zip && check_fill(a, e, s, &fill, err) < 0) ||
		    add_member(m, a, e, s, zip, err) < 0)
			return m->list.n ? err_wrap(err, "member %.200s",
						    m->list.v[m->list.n - 1].name)
					 : -1;
	if (r != ARCHIVE_EOF)
		return archive_error(a, err);
	if (zip ? normalise_check_zip(s, &m->facts, err) < 0
		: check_fill(a, NULL, s, &fill, err) < 0 ||
			    normalise_check_zeros(s, (uint64_t)archive_read_header_position(a), s.n,
						  err) < 0)
		return -1;
	if (m->list.n)
		qsort(m->list.v, m->list.n, sizeof(*m->list.v), by_name);
	return unpacked_end(&m->spool, err);
}

static int unpack(struct members *m, struct span s, bool zip, struct err *err)
{
	struct archive *a = archive_read_new();
	int r;

	if (!a)
		mem_die(0);
	r = zip ? archive_read_support_format_zip_seekable(a) : archive_read_support_format_tar(a);
	if (r != ARCHIVE_OK || archive_read_open_memory(a, s.p, s.n) != ARCHIVE_OK)
		r = archive_error(a, err);
	else
		r = read_all(m, a, s, zip, err);
	archive_read_free(a);
	return r;
}

static void members_init(struct members *m, struct normalise_job *j)
{
	*m = (struct members){ .arena = arena_new() };
	unpacked_init(&m->spool, j);
}

static void members_deinit(struct members *m)
{
	VEC_FREE(&m->list);
	unpacked_deinit(&m->spool);
	str_deinit(&m->facts);
	arena_free(m->arena);
}

/* Comparing. */

static struct span content(const struct members *m, const struct member *one)
{
	assert(one->at + one->n <= m->spool.all.n);
	return (struct span){ m->spool.all.p + one->at, one->n };
}

static const char *kind_name(const struct member *m)
{
	return m->hard              ? "a hard link"
	       : m->kind == S_IFREG ? "a file"
	       : m->kind == S_IFDIR ? "a directory"
	       : m->kind == S_IFLNK ? "a symbolic link"
				    : "something else";
}

/* What differs between two members of one name besides their content; NULL: nothing that counts. */
static const char *facts_differ(struct normalise_job *j, const struct member *a,
				const struct member *b)
{
	if (a->kind != b->kind || a->hard != b->hard)
		return arena_printf(j->arena, "was %s, is %s", kind_name(a), kind_name(b));
	if (!str_eq(a->target, b->target))
		return arena_printf(j->arena, "link to %s → %s",
				    normalise_text(j, a->target, strlen(a->target)),
				    normalise_text(j, b->target, strlen(b->target)));
	if (a->executable != b->executable)
		return a->executable ? "was executable, isn't any more" : "is executable, was not";
	if ((a->mode ^ b->mode) & 07000)
		return arena_printf(j->arena, "mode %04o → %04o", a->mode & 07777, b->mode & 07777);
	if (a->device != b->device)
		return arena_printf(j->arena, "device %u:%u → %u:%u", major(a->device),
				    minor(a->device), major(b->device), minor(b->device));
	if (memcmp(&a->attributes, &b->attributes, sizeof(a->attributes)) != 0)
		return "other extended attributes, pax records, access list or flags";
	return NULL;
}

/* Two archives that are being compared, and the ignored differences: each kind once, with the first
 * member that has it. */
struct comparison {
	struct normalise_job *j;
	const struct members *a, *b;
	struct normalised *ret;
	const char *inner; /* the first normaliser of contents; NULL: none */
	bool mtime, mode, owner, order;
	size_t n_inner; /* members that are the same after normalisation */
	struct str text;
};

static void ignore(struct comparison *c, bool *seen, const char *what, const struct member *m)
{
	if (!*seen)
		str_addf(&c->text, "%s%s of member %s", c->text.len ? ", " : "", what,
			 normalise_text(c->j, m->name, strlen(m->name)));
	*seen = true;
}

static void note_ignored(struct comparison *c, const struct member *a, const struct member *b)
{
	if (a->mtime != b->mtime)
		ignore(c, &c->mtime, "mtime", a);
	if (a->mode != b->mode)
		ignore(c, &c->mode, "mode", a);
	if (a->uid != b->uid || a->gid != b->gid || strcmp(a->user, b->user) != 0 ||
	    strcmp(a->group, b->group) != 0)
		ignore(c, &c->owner, "owner", a);
	if (a->place != b->place && !c->order) {
		str_addf(&c->text, "%sorder of members", c->text.len ? ", " : "");
		c->order = true;
	}
}

/* Returns false, for the caller to return. */
static bool differ(struct comparison *c, const struct member *m, const char *detail)
{
	c->ret->verdict = NORMALISED_DIFFERENT;
	c->ret->member = normalise_text(c->j, m->name, strlen(m->name));
	c->ret->detail = detail;
	return false;
}

/* Whether two members of one name are the same. */
static bool same_member(struct comparison *c, const struct member *a, const struct member *b)
{
	struct span sa = content(c->a, a), sb = content(c->b, b);
	const char *facts = facts_differ(c->j, a, b);
	struct normalised inner;

	if (facts)
		return differ(c, a, facts);
	note_ignored(c, a, b);
	if (sa.n == sb.n && memcmp(sa.p, sb.p, sa.n) == 0)
		return true;
	normalise_spans(c->j, sa, sb, &inner);
	if (!c->inner)
		c->inner = inner.normaliser;
	if (inner.verdict == NORMALISED_SAME) {
		if (c->n_inner++ == 0) {
			c->ret->member = normalise_text(c->j, a->name, strlen(a->name));
			str_addf(&c->text, "%sin %s: %s", c->text.len ? ", " : "", c->ret->member,
				 inner.detail);
		}
		return true;
	}
	differ(c, a,
	       inner.verdict == NORMALISED_DIFFERENT ? inner.detail
						     : normalise_difference(c->j, sa, sb));
	if (inner.member)
		c->ret->member = arena_printf(c->j->arena, "%s > %s", c->ret->member, inner.member);
	return false;
}

static void judge(struct comparison *c)
{
	const struct members *a = c->a, *b = c->b;
	size_t i = 0, k = 0;

	c->ret->verdict = NORMALISED_SAME;
	while (i < a->list.n || k < b->list.n) {
		const struct member *ma = i < a->list.n ? &a->list.v[i] : NULL,
				    *mb = k < b->list.n ? &b->list.v[k] : NULL;
		int order = !ma ? 1 : !mb ? -1 : strcmp(ma->name, mb->name);

		if (order < 0 ? !differ(c, ma, "is only in the old one")
		    : order   ? !differ(c, mb, "is only in the new one")
			      : !same_member(c, ma, mb))
			return;
		i++;
		k++;
	}
	if (!normalise_same_bytes(&a->facts, &b->facts)) {
		*c->ret = (struct normalised){ .verdict = NORMALISED_DIFFERENT,
					       .detail = "comments or extra fields differ" };
		return;
	}
	if (c->n_inner > 1)
		str_addf(&c->text, " (and so in %zu more)", c->n_inner - 1);
	c->ret->detail = c->text.len ? arena_strndup(c->j->arena, c->text.s, c->text.len)
				     : "only headers or compression differ";
}

static bool all_arrays(const struct members *m)
{
	for (size_t i = 0; i < m->list.n; i++)
		if (!str_has_suffix(m->list.v[i].name, ".npy"))
			return false;
	return m->list.n > 0;
}

static int normalise_archive(struct normalise_job *j, bool zip, struct span a, struct span b,
			     struct normalised *ret, struct err *err)
{
	struct members ma, mb;
	struct comparison c = { .j = j, .a = &ma, .b = &mb, .ret = ret };
	int r;

	members_init(&ma, j);
	members_init(&mb, j);
	r = unpack(&ma, a, zip, err) < 0 || unpack(&mb, b, zip, err) < 0 ? -1 : 0;
	if (r == 0) {
		bool npz = zip && all_arrays(&ma) && all_arrays(&mb);

		judge(&c);
		ret->normaliser = npz ? "npz" : zip ? "zip" : "tar";
		if (c.inner && !npz)
			ret->normaliser = arena_printf(j->arena, "%s+%s", ret->normaliser, c.inner);
	}
	str_deinit(&c.text);
	members_deinit(&ma);
	members_deinit(&mb);
	return r;
}

int normalise_tar(struct normalise_job *j, struct span a, struct span b, struct normalised *ret,
		  struct err *err)
{
	return normalise_archive(j, false, a, b, ret, err);
}

int normalise_zip(struct normalise_job *j, struct span a, struct span b, struct normalised *ret,
		  struct err *err)
{
	return normalise_archive(j, true, a, b, ret, err);
}
