/* Runs a fuzz target over stored inputs, where libFuzzer isn't: each argument is a file or a
 * directory of files, in the order of their names. An input lies in a buffer of exactly its size,
 * so that a sanitizer sees a read beyond it. Fails when a directory is missing or has no file in
 * it, because a test that ran nothing must not pass. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/mem.h"
#include "base/os/fs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
__attribute__((weak)) int LLVMFuzzerInitialize(int *argc, char ***argv);

#define INPUT_MAX (64 * MIB)

static int replay_file(const char *path)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	_cleanup_(freep) uint8_t *exact = NULL;
	struct err err = { 0 };

	if (fs_read_file(path, INPUT_MAX, &text, &err) < 0) {
		fprintf(stderr, "%s\n", err.msg);
		return -1;
	}
	exact = xmalloc(text.len);
	if (text.len)
		memcpy(exact, text.s, text.len);
	if (getenv("REPLAY_VERBOSE"))
		fprintf(stderr, "%s\n", path);
	LLVMFuzzerTestOneInput(exact, text.len);
	return 1;
}

static int is_visible(const struct dirent *e)
{
	return e->d_name[0] != '.';
}

/* How many files were run, -1 on error. */
static int replay_dir(const char *dir)
{
	struct dirent **names;
	int n = scandir(dir, &names, is_visible, alphasort), total = 0;

	if (n < 0) {
		perror(dir);
		return -1;
	}
	for (int i = 0; i < n; i++) {
		_cleanup_(freep) char *path = fs_join(dir, names[i]->d_name);

		if (total >= 0)
			total = replay_file(path) < 0 ? -1 : total + 1;
		free(names[i]);
	}
	free(names);
	if (total == 0) {
		fprintf(stderr, "%s: no inputs\n", dir);
		return -1;
	}
	return total;
}

static int replay(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0) {
		perror(path);
		return -1;
	}
	return S_ISDIR(st.st_mode) ? replay_dir(path) : replay_file(path);
}

int main(int argc, char **argv)
{
	int total = 0;

	if (LLVMFuzzerInitialize)
		LLVMFuzzerInitialize(&argc, &argv);
	if (argc < 2) {
		fprintf(stderr, "usage: %s FILE-OR-DIRECTORY...\n", argv[0]);
		return 2;
	}
	for (int i = 1; i < argc; i++) {
		int n = replay(argv[i]);

		if (n < 0)
			return 1;
		total += n;
	}
	printf("%d inputs replayed\n", total);
	return 0;
}
