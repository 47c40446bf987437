/* runners/image/elf.c — reads a program's needs from its ELF headers; and searches as the dynamic
 * loader does.
 *
 * elf_read() reads only the program headers, the dynamic section and its string table. All numbers
 * come from the file: take() reads at checked offsets, and each size has a ceiling (*_MAX). The
 * PT_LOAD headers turn a memory address into a file offset (offset_of()).
 *
 * elf_find() searches in the order of ld.so(8), and the first file that fits() wins: it must be
 * readable and for the same machine. `by` is the chain of files that need each other, because an
 * rpath also counts for indirect needs. The loader's cache is read as glibc writes it; entries for
 * special processors are skipped.
 *
 * Nothing is executed, and only the cache's bytes are kept. files.c decides which files go into an
 * image. Any thread; an elf_cache is only read after elf_cache_new().
 */
#include "runners/image/elf.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/os/fs.h"

/* Real files have a dozen program headers, a few hundred dynamic entries and, with C++, strings of
 * some megabytes. */
#define HEADERS_MAX 256
#define DYNAMIC_MAX (1 * MIB)
#define STRINGS_MAX (64 * MIB)
#define NEEDED_MAX  1024
#define CACHE_MAX   (16 * MIB)

/* One file. */

struct elf_file {
	const char *path;
	int fd;
	struct arena *arena;
	Elf64_Phdr *headers;
	size_t n_headers;
};

static int damaged(const struct elf_file *f, struct err *err)
{
	return err_set(err, ERR_INVALID,
		       "%s is not a program or library of a kind that can be read", f->path);
}

static int take(const struct elf_file *f, uint64_t at, void *into, size_t n, struct err *err)
{
	ssize_t got = fs_read_at(f->fd, into, n, (off_t)at);

	if (got < 0)
		return err_errno(err, "cannot read %s", f->path);
	return (size_t)got < n ? damaged(f, err) : 0;
}

static const Elf64_Phdr *header_of(const struct elf_file *f, uint32_t type)
{
	for (size_t i = 0; i < f->n_headers; i++)
		if (f->headers[i].p_type == type)
			return &f->headers[i];
	return NULL;
}

/* The file offset of the bytes loaded at `address`; false: there is none. */
static bool offset_of(const struct elf_file *f, uint64_t address, uint64_t *ret)
{
	for (size_t i = 0; i < f->n_headers; i++) {
		const Elf64_Phdr *p = &f->headers[i];

		if (p->p_type == PT_LOAD && address >= p->p_vaddr &&
		    address - p->p_vaddr < p->p_filesz) {
			*ret = p->p_offset + (address - p->p_vaddr);
			return true;
		}
	}
	return false;
}

static int read_headers(struct elf_file *f, uint16_t *ret_machine, struct err *err)
{
	static const unsigned char magic[] = {
		ELFMAG0,    ELFMAG1,
		ELFMAG2,    ELFMAG3,
		ELFCLASS64, __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB
	};
	Elf64_Ehdr e;

	if (take(f, 0, &e, sizeof(e), err) < 0)
		return -1;
	if (memcmp(e.e_ident, magic, sizeof(magic)) != 0 || e.e_phentsize != sizeof(Elf64_Phdr) ||
	    e.e_phnum == 0 || e.e_phnum > HEADERS_MAX)
		return damaged(f, err);
	f->n_headers = e.e_phnum;
	f->headers = arena_alloc(f->arena, f->n_headers * sizeof(*f->headers));
	*ret_machine = e.e_machine;
	return take(f, e.e_phoff, f->headers, f->n_headers * sizeof(*f->headers), err);
}

static int read_text(const struct elf_file *f, uint64_t at, uint64_t n, uint64_t max, char **ret,
		     struct err *err)
{
	if (n == 0 || n > max)
		return damaged(f, err);
	*ret = arena_alloc(f->arena, (size_t)n + 1); /* zeroed, so text ends in NUL */
	return take(f, at, *ret, (size_t)n, err);
}

static uint64_t dynamic_value(const Elf64_Dyn *d, size_t n, int64_t tag)
{
	for (size_t i = 0; i < n && d[i].d_tag != DT_NULL; i++)
		if (d[i].d_tag == tag)
			return d[i].d_un.d_val;
	return UINT64_MAX;
}

static const char *string_at(const char *strings, uint64_t n, uint64_t at)
{
	return at < n ? strings + at : NULL;
}

static int read_dynamic(const struct elf_file *f, const Elf64_Phdr *p, struct elf_facts *ret,
			struct err *err)
{
	uint64_t n_strings, at, n = p->p_filesz / sizeof(Elf64_Dyn);
	Elf64_Dyn *d;
	char *strings;

	if (n == 0 || p->p_filesz > DYNAMIC_MAX)
		return damaged(f, err);
	d = arena_alloc(f->arena, n * sizeof(*d));
	if (take(f, p->p_offset, d, n * sizeof(*d), err) < 0)
		return -1;
	n_strings = dynamic_value(d, n, DT_STRSZ);
	if (n_strings == UINT64_MAX) /* a static position-independent program */
		return 0;
	if (!offset_of(f, dynamic_value(d, n, DT_STRTAB), &at))
		return damaged(f, err);
	if (read_text(f, at, n_strings, STRINGS_MAX, &strings, err) < 0)
		return -1;
	ret->soname = string_at(strings, n_strings, dynamic_value(d, n, DT_SONAME));
	ret->rpath = string_at(strings, n_strings, dynamic_value(d, n, DT_RPATH));
	ret->runpath = string_at(strings, n_strings, dynamic_value(d, n, DT_RUNPATH));
	ret->needed = arena_alloc(f->arena, NEEDED_MAX * sizeof(*ret->needed));
	for (size_t i = 0; i < n && d[i].d_tag != DT_NULL; i++) {
		const char *name = d[i].d_tag == DT_NEEDED
					   ? string_at(strings, n_strings, d[i].d_un.d_val)
					   : "";

		if (!name || ret->n_needed == NEEDED_MAX)
			return damaged(f, err);
		if (*name)
			ret->needed[ret->n_needed++] = name;
	}
	return 0;
}

int elf_read(const char *path, struct arena *arena, struct elf_facts *ret, struct err *err)
{
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct elf_file f = { .path = path, .fd = fd, .arena = arena };
	struct elf_facts e = { .path = arena_strdup(arena, path) };
	const Elf64_Phdr *p;
	struct stat st;
	char *text;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, "cannot read %s", path);
	if (!S_ISREG(st.st_mode))
		return damaged(&f, err);
	if (read_headers(&f, &e.machine, err) < 0)
		return -1;
	p = header_of(&f, PT_INTERP);
	if (p && read_text(&f, p->p_offset, p->p_filesz, 4096, &text, err) < 0)
		return -1;
	e.interp = p ? text : NULL;
	p = header_of(&f, PT_DYNAMIC);
	if (p && read_dynamic(&f, p, &e, err) < 0)
		return -1;
	*ret = e;
	return 0;
}

/* The loader's cache. */

/* glibc, sysdeps/generic/dl-cache.h: "cache_file_new". String offsets count from its beginning.
 */
#define CACHE_MAGIC "glibc-ld.so.cache1.1"
struct cache_header {
	char magic[20];
	uint32_t n, strings_len;
	uint8_t flags, padding[3];
	uint32_t extension, unused[3];
};
struct cache_entry {
	int32_t flags;
	uint32_t name, path, os_version;
	uint64_t hwcap; /* != 0: for some processors only */
};
struct elf_cache {
	struct str bytes;
	size_t start, n;
};

struct elf_cache *elf_cache_new(const char *path)
{
	struct elf_cache *c = xcalloc(1, sizeof(*c));
	struct cache_header h;
	const char *found;

	if (fs_read_file(path ? path : "/etc/ld.so.cache", CACHE_MAX, &c->bytes, NULL) < 0)
		return c;
	found = memmem(c->bytes.s, c->bytes.len, CACHE_MAGIC,
		       sizeof(h.magic)); /* perhaps after a cache in an older format */
	if (!found || c->bytes.len - (size_t)(found - c->bytes.s) < sizeof(h))
		return c;
	c->start = (size_t)(found - c->bytes.s);
	memcpy(&h, found, sizeof(h));
	c->n = MIN(h.n, (c->bytes.len - c->start - sizeof(h)) / sizeof(struct cache_entry));
	return c;
}

void elf_cache_free(struct elf_cache *c)
{
	if (!c)
		return;
	str_deinit(&c->bytes);
	free(c);
}

/* The bytes end in a NUL, so any offset inside them is a string. */
static const char *cache_string(const struct elf_cache *c, uint32_t at)
{
	return at < c->bytes.len - c->start ? c->bytes.s + c->start + at : "";
}

/* Search. */

struct search {
	const char *name;
	const struct elf_facts *by; /* the file that needs it */
	const struct elf_facts
		*origin; /* the file whose directories are searched: `by`, or one that loaded it */
	struct arena *arena;
	struct elf_facts *ret;
};

static bool fits(const struct search *s, const char *path)
{
	struct elf_facts f;

	if (access(path, R_OK) < 0 || elf_read(path, s->arena, &f, NULL) < 0 ||
	    f.machine != s->by->machine)
		return false;
	f.by = s->by;
	*s->ret = f;
	return true;
}

static bool in_dir(const struct search *s, const char *dir, size_t n)
{
	const char *origin = strrchr(s->origin->path, '/');
	_cleanup_(freep) char *text = xstrndup(dir, n);
	_cleanup_(str_deinit) struct str path = { 0 };
	const char *at = text, *mark;

	while ((mark = strstr(at, "$ORIGIN")) || (mark = strstr(at, "${ORIGIN}"))) {
		str_addn(&path, at, (size_t)(mark - at));
		str_addn(&path, s->origin->path, origin ? (size_t)(origin - s->origin->path) : 0);
		at = mark + (mark[1] == '{' ? strlen("${ORIGIN}") : strlen("$ORIGIN"));
	}
	str_addf(&path, "%s/%s", at, s->name);
	return n > 0 && fits(s, path.s);
}

static bool in_dirs(const struct search *s, const char *dirs)
{
	for (const char *at = dirs, *end; at; at = *end ? end + 1 : NULL) {
		end = strchrnul(at, ':');
		if (in_dir(s, at, (size_t)(end - at)))
			return true;
	}
	return false;
}

static bool in_rpaths(const struct search *s)
{
	if (s->by->runpath)
		return false;
	for (const struct elf_facts *f = s->by; f; f = f->by) {
		struct search of = *s;

		of.origin = f;
		if (f->rpath && !f->runpath && in_dirs(&of, f->rpath))
			return true;
	}
	return false;
}

static bool in_cache(const struct search *s, const struct elf_cache *c)
{
	for (size_t i = 0; i < c->n; i++) {
		struct cache_entry e;

		memcpy(&e, c->bytes.s + c->start + sizeof(struct cache_header) + i * sizeof(e),
		       sizeof(e));
		if (e.hwcap == 0 && strcmp(cache_string(c, e.name), s->name) == 0 &&
		    fits(s, cache_string(c, e.path)))
			return true;
	}
	return false;
}

/* Debian's multiarch directories first, then other systems'. */
static bool in_standard(const struct search *s)
{
	const char *triplet = s->by->machine == EM_X86_64    ? "x86_64-linux-gnu"
			      : s->by->machine == EM_AARCH64 ? "aarch64-linux-gnu"
			      : s->by->machine == EM_RISCV   ? "riscv64-linux-gnu"
			      : s->by->machine == EM_PPC64   ? "powerpc64le-linux-gnu"
			      : s->by->machine == EM_S390    ? "s390x-linux-gnu"
							     : ".";
	static const char *const dirs[] = { "/lib/%s",    "/usr/lib/%s", "/lib64",
					    "/usr/lib64", "/lib",        "/usr/lib" };

	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		const char *dir = i < 2 ? arena_printf(s->arena, "%.*s%s",
						       (int)(strlen(dirs[i]) - 2), dirs[i], triplet)
					: dirs[i];

		if (in_dir(s, dir, strlen(dir)))
			return true;
	}
	return false;
}

int elf_find(const struct elf_cache *c, const char *name, const struct elf_facts *by,
	     struct arena *arena, struct elf_facts *ret, struct err *err)
{
	struct search s = { name, by, by, arena, ret };
	const char *named = getenv("LD_LIBRARY_PATH");

	if (strchr(name, '/') ? fits(&s, name)
			      : in_rpaths(&s) || (named && in_dirs(&s, named)) ||
					(by->runpath && in_dirs(&s, by->runpath)) ||
					in_cache(&s, c) || in_standard(&s))
		return 0;
	return err_set(err, ERR_NOT_FOUND, "%s, which %s needs, isn't on this machine", name,
		       by->path);
}
