/* What comes from registries, users and other people's files: names of images (whose written form
 * reads back as the same), WWW-Authenticate, ELF headers. */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include "base/os/fs.h"
#include "runners/image/elf.h"
#include "runners/image/registry_internal.h"

static void try_reference(const char *text, struct arena *arena)
{
	_cleanup_(str_deinit) struct str once = { 0 }, twice = { 0 };
	struct image_ref r, again;

	if (image_ref_parse(text, arena, &r, NULL) < 0)
		return;
	assert(r.host && *r.host && r.path && *r.path && (r.tag || r.digest));
	image_ref_add(&once, &r);
	assert(image_ref_parse(once.s, arena, &again, NULL) == 0);
	image_ref_add(&twice, &again);
	assert(strcmp(once.s, twice.s) == 0);
}

static void try_challenge(const char *bytes, size_t n, struct arena *arena)
{
	struct auth_challenge c;

	registry_challenge_parse(bytes, n, arena, &c);
	assert(c.scheme != AUTH_BEARER || c.realm);
}

static void try_elf(const void *bytes, size_t n, struct arena *arena)
{
	_cleanup_(fd_closep) int fd = memfd_create("elf", MFD_CLOEXEC);
	char path[64];
	struct elf_facts f;
	struct err err = { 0 };

	assert(fd >= 0 && fs_write_all(fd, bytes, n, &err) == 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (elf_read(path, arena, &f, &err) < 0)
		return;
	for (size_t i = 0; i < f.n_needed; i++)
		assert(*f.needed[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	_cleanup_(freep) char *text = NULL;

	if (size == 0)
		return 0;
	text = xstrndup((const char *)data + 1, size - 1);
	if (data[0] == 'r')
		try_reference(text, arena);
	else if (data[0] == 'c')
		try_challenge((const char *)data + 1, size - 1, arena);
	else
		try_elf(data, size, arena);
	return 0;
}
