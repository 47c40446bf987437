/* runners/image/files.c — lists the files of Cairn's own image.
 *
 * image_files() fills a builder with the programs (read_programs()) and every library that they
 * need, as a breadth-first closure over DT_NEEDED (`found`, `done`). Then come libraries that are
 * opened by name and their needs, the loader, and the files that the C library, curl and the
 * calendar use (add_surroundings()). A path is added once; the first one wins. At the end the list
 * is sorted, with its directories.
 *
 * All libraries go into one directory, that of the C library, wherever they are on this machine:
 * the loader searches there by default. /lib and /usr/lib are one place, as on merged systems.
 *
 * This file collects only names and sources: layout.c reads the contents, elf.c knows the format.
 * One thread.
 */
#include <assert.h>
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/map.h"
#include "base/net/http.h"
#include "base/os/fs.h"
#include "base/text/text.h"
#include "runners/image/elf.h"
#include "runners/image/layout.h"

#define ZONES           "/usr/share/zoneinfo"
#define C_LIBRARY       "libc.so.6"
#define LIBRARIES_MAX   1024
#define ZONES_DEPTH_MAX 4

struct builder {
	struct arena *arena;
	struct elf_cache *cache;
	VEC(struct image_file) files;
	struct map *paths;     /* of files */
	struct map *libraries; /* names already searched for */
	VEC(const struct elf_facts *)
	found; /* programs and libraries; those from `done` on are still unread */
	size_t done;
	VEC(const char *) names; /* of found[i]: the needed name; NULL for a program */
};

/* Entries. */

static void add(struct builder *b, const struct image_file *f)
{
	bool fresh;

	*map_slot(b->paths, f->path, strlen(f->path), &fresh) = b;
	if (fresh)
		VEC_PUSH(&b->files, *f);
}

static void add_dir(struct builder *b, const char *path, unsigned mode)
{
	add(b, &(struct image_file){ .path = path, .mode = mode });
}

static void add_file(struct builder *b, const char *path, const char *source, unsigned mode)
{
	add(b, &(struct image_file){ .path = path, .source = source, .mode = mode });
}

static void add_text(struct builder *b, const char *path, const char *text)
{
	add(b, &(struct image_file){ .path = path, .text = text, .mode = 0644 });
}

/* Programs and libraries. */

static void note(struct builder *b, const struct elf_facts *f, const char *name)
{
	VEC_PUSH(&b->found, arena_memdup(b->arena, f, sizeof(*f)));
	VEC_PUSH(&b->names, name);
}

static int want(struct builder *b, const char *name, const struct elf_facts *by, struct err *err)
{
	struct elf_facts f;

	/* Libraries need the loader, too; it has its own place. */
	if (str_has_prefix(name, "ld-linux") || str_has_prefix(name, "ld64.so") ||
	    str_has_prefix(name, "ld.so") || map_has(b->libraries, name, strlen(name)))
		return 0;
	if (b->found.n == LIBRARIES_MAX)
		return err_set(err, ERR_TOO_LARGE, "%s needs more than %d libraries",
			       b->found.v[0]->path, LIBRARIES_MAX);
	if (elf_find(b->cache, name, by, b->arena, &f, err) < 0)
		return -1;
	*map_slot_str(b->libraries, name) = b;
	note(b, &f, fs_basename(name));
	return 0;
}

static int want_needed(struct builder *b, struct err *err)
{
	for (; b->done < b->found.n; b->done++) {
		const struct elf_facts *f = b->found.v[b->done];

		for (size_t i = 0; i < f->n_needed; i++)
			if (want(b, f->needed[i], f, err) < 0)
				return -1;
	}
	return 0;
}

/* "a|b|c": the first that exists. "?a": optional. */
static int want_opened(struct builder *b, const char *names, struct err *err)
{
	bool optional = *names == '?';

	for (const char *at = names + optional, *end; at; at = *end ? end + 1 : NULL) {
		struct err why = { 0 };

		end = strchrnul(at, '|');
		if (want(b, arena_strndup(b->arena, at, (size_t)(end - at)), b->found.v[0], &why) ==
		    0)
			return 0;
		if (why.code != ERR_NOT_FOUND) {
			*err = why;
			return -1;
		}
	}
	return optional ? 0
			: err_set(err, ERR_NOT_FOUND,
				  "%s isn't on this machine, and cairn opens it when it needs it",
				  names);
}

static int read_programs(struct builder *b, const struct image_request *request, struct err *err)
{
	struct elf_facts f;

	for (size_t i = 0; i < request->n; i++) {
		if (elf_read(request->programs[i], b->arena, &f, err) < 0)
			return -1;
		if (i > 0 && f.machine != b->found.v[0]->machine)
			return err_set(err, ERR_INVALID, "%s is made for another processor than %s",
				       f.path, b->found.v[0]->path);
		note(b, &f, NULL);
		add_file(b, request->targets[i], f.path, 0755);
	}
	return 0;
}

/* "/lib/x" and "/usr/lib/x" are one place, in the image, too. */
static const char *below_usr(struct arena *arena, const char *path)
{
	path += *path == '/';
	return str_has_prefix(path, "usr/") ? arena_strdup(arena, path)
					    : arena_printf(arena, "usr/%s", path);
}

static const char *library_dir(struct builder *b)
{
	for (size_t i = 0; i < b->found.n; i++)
		if (str_eq(b->names.v[i], C_LIBRARY)) {
			_cleanup_(freep) char *real = realpath(b->found.v[i]->path, NULL);
			_cleanup_(freep) char *dir = fs_dirname(real ? real : b->found.v[i]->path);

			return below_usr(b->arena, dir);
		}
	return "usr/lib";
}

/* "/lib64/ld-linux-x86-64.so.2" → usr/lib64/…, with a link lib64 → usr/lib64. */
static int add_loader(struct builder *b, const char *interp, struct err *err)
{
	const char *slash;

	if (*interp != '/' || !(slash = strchr(interp + 1, '/')))
		return err_set(err, ERR_INVALID, "`%s` is not the absolute path of a loader",
			       interp);
	add_file(b, below_usr(b->arena, interp), interp, 0755);
	if (str_has_prefix(interp, "/usr/"))
		return 0;
	add(b,
	    &(struct image_file){
		    .path = arena_strndup(b->arena, interp + 1, (size_t)(slash - interp - 1)),
		    .target = arena_printf(b->arena, "usr%.*s", (int)(slash - interp), interp) });
	return 0;
}

static int add_libraries(struct builder *b, struct err *err)
{
	const char *dir = library_dir(b);

	add_dir(b, "usr/lib", 0755);
	add(b, &(struct image_file){ .path = "lib", .target = "usr/lib" });
	for (size_t i = 0; i < b->found.n; i++) {
		const struct elf_facts *f = b->found.v[i];

		if (b->names.v[i])
			add_file(b, arena_printf(b->arena, "%s/%s", dir, b->names.v[i]), f->path,
				 0644);
		else if (f->interp && add_loader(b, f->interp, err) < 0)
			return -1;
	}
	return 0;
}

static int gather_programs(struct builder *b, const struct image_request *request, struct err *err)
{
	if (read_programs(b, request, err) < 0 || want_needed(b, err) < 0)
		return -1;
	for (const char *const *name = request->dlopened; name && *name; name++)
		if (want_opened(b, *name, err) < 0)
			return -1;
	return want_needed(b, err) < 0 ? -1 : add_libraries(b, err);
}

/* Other files that the C library, curl and the calendar use. */

/* Only zones without leap seconds, and nothing that reveals this machine's zone. */
static bool is_zone(const char *name)
{
	static const char *const others[] = { "right", "posix", "posixrules", "localtime" };

	return *name != '.' && !text_is_one_of(name, others, ARRAY_LEN(others));
}

static int add_zones(struct builder *b, const char *dir, const char *target, unsigned depth,
		     struct err *err)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	struct stat st;
	int r = 0;

	if (!d)
		return err_errno(err, "no time zones in %s (package tzdata)", dir);
	while (r == 0 && (r = fs_next(d, dir, &e, err)) == 1) {
		const char *path = arena_printf(b->arena, "%s/%s", dir, e->d_name),
			   *to = arena_printf(b->arena, "%s/%s", target, e->d_name);

		r = 0;
		if (!is_zone(e->d_name) || stat(path, &st) < 0)
			continue;
		if (S_ISREG(st.st_mode))
			add_file(b, to, path, 0644);
		else if (S_ISDIR(st.st_mode) && depth < ZONES_DEPTH_MAX)
			r = add_zones(b, path, to, depth + 1, err);
	}
	closedir(d);
	return r;
}

static int add_surroundings(struct builder *b, const struct image_request *request, struct err *err)
{
	static const char *const dirs[] = { "dev", "etc", "proc", "run", "sys", "usr", "var" };
	const char *certificates = request->certificates ? request->certificates : http_ca_file();

	if (!certificates || access(certificates, R_OK) < 0)
		return err_set(err, ERR_NOT_FOUND,
			       "no CA certificates%s%s (package ca-certificates)",
			       certificates ? ": " : "", certificates ? certificates : "");
	add_file(b, "etc/ssl/certs/ca-certificates.crt", certificates, 0644);
	add_text(b, "etc/passwd",
		 "root:x:0:0:root:/root:/usr/sbin/nologin\ncairn:x:10001:10001:Cairn:/tmp:/usr/"
		 "sbin/nologin\n");
	add_text(b, "etc/group", "root:x:0:\ncairn:x:10001:\n");
	add_text(b, "etc/nsswitch.conf",
		 "passwd: files\ngroup: files\nhosts: files dns\nnetworks: files\nprotocols: "
		 "files\nservices: files\n");
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		add_dir(b, dirs[i], 0755);
	add_dir(b, "tmp", 01777);
	add_dir(b, "var/tmp", 01777);
	return add_zones(b, request->zones ? request->zones : ZONES, "usr/share/zoneinfo", 0, err);
}

/* All. */

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct image_file *)a)->path, ((const struct image_file *)b)->path);
}

static int architecture_of(uint16_t machine, const char **ret, struct err *err)
{
	static const struct {
		uint16_t machine;
		const char *name; /* GOARCH, as the specification says */
	} known[] = { { EM_X86_64, "amd64" },
		      { EM_AARCH64, "arm64" },
		      { EM_RISCV, "riscv64" },
		      { EM_PPC64, "ppc64le" },
		      { EM_S390, "s390x" } };

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (known[i].machine == machine) {
			*ret = known[i].name;
			return 0;
		}
	return err_set(err, ERR_UNSUPPORTED,
		       "no image architecture is known for this processor (ELF machine %u)",
		       machine);
}

int image_files(const struct image_request *request, struct arena *arena, struct image_content *ret,
		struct err *err)
{
	struct builder b = { .arena = arena,
			     .cache = elf_cache_new(NULL),
			     .paths = map_new(),
			     .libraries = map_new() };
	const char *architecture = NULL;
	int r;

	assert(request->n > 0);
	r = gather_programs(&b, request, err);
	if (r == 0)
		r = architecture_of(b.found.v[0]->machine, &architecture, err);
	for (size_t i = 0; i < request->n_others && r == 0; i++)
		add(&b, &request->others[i]);
	if (r == 0)
		r = add_surroundings(&b, request, err);
	/* The parent directories of each file. */
	for (size_t i = 0, n = b.files.n; i < n && r == 0; i++) {
		const char *path = b.files.v[i].path;

		for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/'))
			add_dir(&b, arena_strndup(arena, path, (size_t)(slash - path)), 0755);
	}
	if (r == 0) {
		qsort(b.files.v, b.files.n, sizeof(*b.files.v), by_path);
		*ret = (struct image_content){ arena_memdup(arena, b.files.v,
							    b.files.n * sizeof(*b.files.v)),
					       b.files.n, architecture };
	}
	elf_cache_free(b.cache);
	map_free(b.paths);
	map_free(b.libraries);
	VEC_FREE(&b.files);
	VEC_FREE(&b.found);
	VEC_FREE(&b.names);
	return r;
}
