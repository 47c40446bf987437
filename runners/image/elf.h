/* runners/image/elf.h — what a program or a library says that it needs, and where the dynamic
 * loader finds that.
 *
 * Reads headers only (System V ABI, "Dynamic Linking"; ld.so(8)); nothing is executed, so that a
 * foreign or damaged file does no harm: sizes are bounded, offsets checked. 64-bit ELF of this
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
	const struct elf_facts *by; /* what asked for it, or NULL: its rpath counts too */
};
/* In `arena`. ERR_INVALID: not such a file (a script, say). */
int elf_read(const char *path, struct arena *arena, struct elf_facts *ret, struct err *err);

/* The library `name` as `by` would get it: rpath, LD_LIBRARY_PATH, runpath, the loader's cache, its
 * own directories. One for another machine is passed over. ERR_NOT_FOUND. */
struct elf_cache;
struct elf_cache *elf_cache_new(const char *path); /* NULL: /etc/ld.so.cache; one that isn't there
						      or isn't understood is empty */
void elf_cache_free(struct elf_cache *c);
int elf_find(const struct elf_cache *c, const char *name, const struct elf_facts *by,
	     struct arena *arena, struct elf_facts *ret, struct err *err);

#endif
