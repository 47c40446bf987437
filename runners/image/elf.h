/* runners/image/elf.h — which libraries a program or a library needs, and where the dynamic loader
 * finds them.
 *
 * Reads headers only (System V ABI, "Dynamic Linking"; ld.so(8)) and executes nothing. Sizes are
 * bounded and offsets checked, so a foreign or damaged file does no harm. Reads 64-bit ELF in this
 * machine's byte order.
 */
#ifndef CAIRN_RUNNERS_IMAGE_ELF_H
#define CAIRN_RUNNERS_IMAGE_ELF_H

#include <stdbool.h>
#include "base/err.h"
#include "base/mem.h"

struct elf_facts {
	const char *path;                     /* of the file */
	uint16_t machine;                     /* EM_X86_64, … */
	const char *interp;                   /* the loader; NULL: a library, or a static program */
	const char *soname, *rpath, *runpath; /* or NULL */
	const char **needed;
	size_t n_needed;
	const struct elf_facts *by; /* what needs it, or NULL: its rpath counts too */
};
/* The result is in `arena`. ERR_INVALID: not an ELF file (a script, say). */
int elf_read(const char *path, struct arena *arena, struct elf_facts *ret, struct err *err);

/* Finds the library `name` as the loader would for `by`: rpath, LD_LIBRARY_PATH, runpath, the
 * loader's cache, its own directories. Skips libraries for another machine. ERR_NOT_FOUND. */
struct elf_cache;
/* NULL: /etc/ld.so.cache. A missing or unreadable cache counts as empty. */
struct elf_cache *elf_cache_new(const char *path);
void elf_cache_free(struct elf_cache *c);
int elf_find(const struct elf_cache *c, const char *name, const struct elf_facts *by,
	     struct arena *arena, struct elf_facts *ret, struct err *err);

#endif
