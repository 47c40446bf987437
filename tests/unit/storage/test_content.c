/* Content in and out: round trips of random trees, identities against a naive implementation,
 * hostile listings, damage. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include "base/os/fs.h"
#include "base/time/clock.h"
#include "storage/action.h"
#include "storage/internal.h"
#include "storage/local/maintain.h"
#include "storage/local/statcache.h"
#include "unit/storage/store_fixture.h"

static uint64_t rnd_state = 42;
static uint32_t rnd(uint32_t n)
{
	rnd_state = rnd_state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(rnd_state >> 33) % n;
}

static void write_file(int dir, const char *name, const void *bytes, size_t n, mode_t mode)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

	assert_true(fd >= 0);
	assert_int_equal(fs_write_all(fd, bytes, n, NULL), 0);
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static void random_tree(int dir, int depth)
{
	static const char *const names[] = { "a",      "b c",   "d\ne", "\xff\xfe",
					     "ümlaut", "z.txt", "-x",   "longer-name.tar.gz" };

	for (uint32_t i = 0; i < ARRAY_LEN(names); i++) {
		char bytes[300];

		switch (rnd(6)) {
		case 0:
			break;
		case 1:
			assert_int_equal(mkdirat(dir, names[i], 0755), 0);
			if (depth) {
				int sub = openat(dir, names[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);

				random_tree(sub, depth - 1);
				close(sub);
			}
			break;
		case 2:
			assert_int_equal(symlinkat("../no where", dir, names[i]), 0);
			break;
		default:
			memset(bytes, (int)rnd(256), sizeof(bytes));
			write_file(dir, names[i], bytes, rnd(sizeof(bytes)), rnd(2) ? 0755 : 0644);
		}
	}
}

/* Same names, kinds, bytes and executable bits, by diff(1) and find(1): an independent look. */
static void assert_same(const char *a, const char *b)
{
	_cleanup_(freep) char *cmd =
		xasprintf("diff -r --no-dereference '%s' '%s' && [ \"$(cd '%s' && find . -type f "
			  "-perm -0100 | sort | sha256sum; find . | wc -l)\" = \"$(cd '%s' && find "
			  ". -type f -perm -0100 | sort | sha256sum; find . | wc -l)\" ]",
			  a, b, a, b);

	assert_int_equal(system(cmd),
			 0); /* lint: system because the comparison must not be our own code */
}

static void test_round_trip(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < 12; i++) {
		_cleanup_(freep) char *in = xasprintf("%s/in%d", f->dir, i),
				      *out = xasprintf("%s/out%d", f->dir, i);
		_cleanup_(freep) char *out_name = xasprintf("out%d", i),
				      *in_name = xasprintf("in%d", i);
		struct content_id id, again;
		struct err err = { 0 };
		int fd;

		assert_int_equal(mkdir(in, 0755), 0);
		fd = open(in, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		random_tree(fd, 3);
		close(fd);
		assert_int_equal(content_put_at(f->s, f->fd, in_name, NULL, &id, &err), 0);
		assert_int_equal(content_materialise_at(f->s, &id, CONTENT_COPY_WRITABLE, f->fd,
							out_name, &err),
				 0);
		assert_same(in, out);
		/* taking the copy in, by moving, gives the same id */
		assert_int_equal(content_put_at(f->s, f->fd, out_name,
						&(struct content_put_options){
							.flags = CONTENT_PUT_MOVE, .n_threads = 2 },
						&again, &err),
				 0);
		assert_true(content_id_eq(&id, &again));
		assert_int_equal(content_verify(f->s, &id, &err), 0);
	}
}

/* FORMAT.md, written down once more. */
static void naive_digest(const uint8_t *bytes, size_t n, struct digest *ret)
{
	const size_t part = 16777216;
	uint8_t all[64 * 32];
	size_t parts = 0;

	if (n <= part) {
		digest_bytes(bytes, n, ret);
		return;
	}
	for (size_t at = 0; at < n; at += part, parts++) {
		struct digest d;

		digest_bytes(bytes + at, n - at < part ? n - at : part, &d);
		memcpy(all + parts * 32, d.b, 32);
	}
	digest_bytes(all, parts * 32, ret);
}

static void test_identity(void **state)
{
	struct fixture *f = *state;
	static const size_t sizes[] = { 0, 1, 16384, 262144, 262145, 16777216, 16777217, 40000000 };
	uint8_t *bytes = xmalloc(40000000);

	for (size_t i = 0; i < 40000000; i++)
		bytes[i] = (uint8_t)(i * 2654435761u >> 13);
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		struct content_id by_file, by_bytes, by_fd;
		struct digest want;
		int fd;

		naive_digest(bytes, sizes[i], &want);
		write_file(f->fd, "blob", bytes, sizes[i], 0644);
		assert_int_equal(content_put_at(f->s, f->fd, "blob",
						&(struct content_put_options){ .n_threads = 2 },
						&by_file, NULL),
				 0);
		content_id_of_bytes(bytes, sizes[i], &by_bytes);
		fd = openat(f->fd, "blob", O_RDONLY | O_CLOEXEC);
		assert_int_equal(content_put_fd(f->s, fd, &by_fd, NULL), 0);
		close(fd);
		assert_true(digest_eq(&want, &by_file.digest));
		assert_true(content_id_eq(&by_file, &by_bytes));
		assert_true(content_id_eq(&by_file, &by_fd));
		assert_int_equal(by_file.size_bytes, sizes[i]);
	}
	free(bytes);
	assert_int_equal(content_part_bytes(8192ULL * 16777216), 16777216);
	assert_int_equal(content_part_bytes(8192ULL * 16777216 + 1), 2 * 16777216);
}

/* Golden: ids must never change by accident. */
static void test_golden(void **state)
{
	struct fixture *f = *state;
	struct tree_builder *b = tree_builder_new();
	struct content_id blob, tree;
	char hex[DIGEST_HEX_MAX];

	content_id_of_bytes("hello\n", 6, &blob);
	assert_string_equal(digest_hex(&blob.digest, hex),
			    "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03");
	assert_int_equal(tree_builder_add(b,
					  &(struct tree_entry){ .name = "run",
								.name_len = 3,
								.kind = TREE_EXECUTABLE,
								.id = blob },
					  NULL),
			 -1);
	blob.kind = CONTENT_EXECUTABLE; /* the same bytes, and in the listing the same entry */
	assert_int_equal(tree_builder_add(b,
					  &(struct tree_entry){ .name = "run",
								.name_len = 3,
								.kind = TREE_FILE,
								.id = blob },
					  NULL),
			 -1);
	assert_int_equal(tree_builder_add(b,
					  &(struct tree_entry){ .name = "run",
								.name_len = 3,
								.kind = TREE_EXECUTABLE,
								.id = blob },
					  NULL),
			 0);
	assert_int_equal(tree_builder_add(b,
					  &(struct tree_entry){ .name = "a",
								.name_len = 1,
								.kind = TREE_SYMLINK,
								.target = "run",
								.target_len = 3 },
					  NULL),
			 0);
	assert_int_equal(tree_builder_store(b, f->s, &tree, NULL), 0);
	assert_int_equal(tree.size_bytes, 13 + (1 + 4 + 2 + 4 + 4) + (1 + 4 + 4 + 8 + 32));
	assert_string_equal(digest_hex(&tree.digest, hex),
			    "3357e2bdd95962a0b4267c6a29d18248274598be4cdb75a8a78d02189f0dad2b");
	tree_builder_free(b);
}

/* A single file is an executable by its owner's bit, however it is taken in, and comes out as one;
 * its bytes lie in the store once. */
static void test_executable(void **state)
{
	static const int ways[] = { 0, CONTENT_PUT_HASH_ONLY, CONTENT_PUT_BENEATH,
				    CONTENT_PUT_MOVE };
	struct fixture *f = *state;
	_cleanup_(freep) char *big = xmalloc(2 * CONTENT_SMALL_BYTES);
	const struct content_put_options hash_only = { .flags = CONTENT_PUT_HASH_ONLY };

	memset(big, 'x', 2 * CONTENT_SMALL_BYTES);
	for (size_t i = 0; i < 2 * ARRAY_LEN(ways); i++) {
		struct content_put_options o = { .flags = ways[i / 2], .n_threads = 2 };
		size_t n = i % 2 ? CONTENT_SMALL_BYTES + 1 : 5;
		struct content_id plain, id, filled, one[2];
		bool there[2];
		struct stat st;

		write_file(f->fd, "plain", big, n,
			   0655); /* others may: that isn't the owner's bit */
		write_file(f->fd, "program", big, n, 0744);
		assert_int_equal(content_put_at(f->s, f->fd, "plain", &o, &plain, NULL), 0);
		assert_int_equal(content_put_at(f->s, f->fd, "program", &o, &id, NULL), 0);
		assert_int_equal(plain.kind, CONTENT_BLOB);
		assert_int_equal(id.kind, CONTENT_EXECUTABLE);
		assert_true(content_same_bytes(&plain, &id) && !content_id_eq(&plain, &id));
		if (o.flags == CONTENT_PUT_HASH_ONLY)
			continue;
		one[0] = plain;
		one[1] = id;
		assert_int_equal(content_complete(f->s, one, 2, there, NULL), 0);
		assert_true(there[0] && there[1]);
		assert_int_equal(content_verify(f->s, &id, NULL), 0);
		assert_int_equal(content_materialise_beneath(f->s, &id, CONTENT_LINK_READONLY,
							     f->fd, "again", NULL),
				 0);
		assert_int_equal(fstatat(f->fd, "again", &st, 0), 0);
		assert_int_equal(st.st_mode & 0777, 0555);
		unlinkat(f->fd, "again", 0);
		/* whatever stands there: nothing, less, more */
		write_file(f->fd, "again", big, i / 2 % 3 * (n - 2), 0600);
		assert_int_equal(
			content_fill_at(f->s, &id, CONTENT_LINK_READONLY, f->fd, "again", NULL), 0);
		assert_int_equal(fstatat(f->fd, "again", &st, 0), 0);
		assert_int_equal(st.st_mode & 0777, 0555);
		assert_int_equal(st.st_size, n);
		assert_int_equal(content_put_at(f->s, f->fd, "again", &hash_only, &filled, NULL),
				 0);
		assert_true(content_id_eq(&filled, &id));
		unlinkat(f->fd, "again", 0);
	}
}

static void test_hostile_listings(void **state)
{
	static const struct {
		const char *bytes;
		size_t n;
	} bad[] = {
		{ "", 0 },
		{ "cairn-tree/2\n", 13 },
		{ "cairn-tree/1\n\x01", 14 },
		{ "cairn-tree/1\n\x03\x01\0\0\0/\0\x01\0\0\0x\0", 26 },
		{ "cairn-tree/1\n\x03\x02\0\0\0..\0\x01\0\0\0x\0", 27 },
		{ "cairn-tree/1\n\x03\0\0\0\0\0\x01\0\0\0x\0", 25 },
		{ "cairn-tree/1\n\x03\x01\0\0\0b\0\x01\0\0\0x\0\x03\x01\0\0\0a\0\x01\0\0\0x\0",
		  39 }, /* out of order */
		{ "cairn-tree/1\n\x03\x01\0\0\0a\0\x01\0\0\0x\0\x03\x01\0\0\0a\0\x01\0\0\0x\0",
		  39 }, /* twice */
		{ "cairn-tree/1\n\x03\xff\xff\xff\xff"
		  "a\0\x01\0\0\0x\0",
		  26 },
		{ "cairn-tree/1\n\x05\x01\0\0\0a\0\x01\0\0\0x\0", 26 },
	};
	struct tree *t;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct err err = { 0 };

		assert_int_equal(tree_decode(bad[i].bytes, bad[i].n, &t, &err), -1);
		assert_int_equal(err.code, ERR_CORRUPT);
	}
	assert_int_equal(tree_decode("cairn-tree/1\n\x03\x01\0\0\0a\0\x01\0\0\0x\0", 26, &t, NULL),
			 0);
	assert_int_equal(tree_len(t), 1);
	tree_free(t);
}

static char *blob_path(struct fixture *f, const struct content_id *id)
{
	char hex[DIGEST_HEX_MAX];

	digest_hex(&id->digest, hex);
	return xasprintf("%s/store/blobs/%.2s/%s", f->dir, hex, hex);
}

static void test_damage(void **state)
{
	struct fixture *f = *state;
	struct content_id id;
	struct err err = { 0 };
	struct store_stat st;
	bool present = true;
	char *path;

	assert_int_equal(content_put_bytes(f->s, "precious", 8, &id, NULL), 0);
	path = blob_path(f, &id);
	assert_int_equal(chmod(path, 0644), 0);
	write_file(AT_FDCWD, path, "previous", 8, 0444); /* same size: only the digest can tell */
	assert_int_equal(content_materialise_at(f->s, &id, CONTENT_LINK_READONLY, f->fd, "x", &err),
			 -1);
	assert_int_equal(err.code, ERR_CORRUPT);
	assert_int_equal(faccessat(f->fd, "x", F_OK, 0), -1);
	assert_int_equal(store_has(f->s, &id, 1, &present, NULL), 0);
	assert_false(present); /* set aside */
	assert_int_equal(store_stat_all(f->s, &st, NULL), 0);
	assert_int_equal(st.set_aside, 1);
	/* too short, as after a power cut: it counts as missing, and the next put mends it */
	assert_int_equal(content_put_bytes(f->s, "precious", 8, &id, NULL), 0);
	assert_int_equal(chmod(path, 0644), 0);
	assert_int_equal(truncate(path, 3), 0);
	assert_int_equal(store_has(f->s, &id, 1, &present, NULL), 0);
	assert_false(present);
	assert_int_equal(content_put_bytes(f->s, "precious", 8, &id, NULL), 0);
	assert_int_equal(content_verify(f->s, &id, NULL), 0);
	free(path);
}

/* Whoever makes content again has its bytes: a damaged copy of the same size doesn't keep them out,
 * and is told of. */
static void test_putting_again_heals(void **state)
{
	static const uint64_t sizes[] = { 8, CONTENT_SMALL_BYTES + 1, CONTENT_PART_BYTES + 1 };
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
		for (int flags = 0; flags <= CONTENT_PUT_MOVE; flags++) {
			const struct content_put_options o = { .flags = flags };
			_cleanup_(freep) char *bytes = xcalloc(sizes[i], 1), *path = NULL;
			struct content_id id;
			struct err err = { 0 };
			struct store *s;

			bytes[0] = (char)('a' + i);
			assert_int_equal(content_put_bytes(f->s, bytes, sizes[i], &id, &err), 0);
			path = blob_path(f, &id);
			assert_int_equal(chmod(path, 0644), 0);
			bytes[sizes[i] / 2] ^= 1;
			write_file(AT_FDCWD, path, bytes, sizes[i], 0444);
			bytes[sizes[i] / 2] ^= 1;
			write_file(f->fd, "again", bytes, sizes[i], 0644);
			assert_int_equal(store_dir_open(store_uri(f->s), false, &s, &err),
					 0); /* another process: nothing is known of it */
			assert_int_equal(content_put_at(s, f->fd, "again", &o, &id, &err), 0);
			assert_int_equal(content_verify(s, &id, &err), 0);
			assert_int_equal(store_healed(s), 1);
			store_free(s);
			unlinkat(f->fd, "again", 0);
		}
}

/* Whoever writes to what he was given writes to a copy. */
static void test_inputs_are_copies(void **state)
{
	struct fixture *f = *state;
	struct content_id id;

	assert_int_equal(content_put_bytes(f->s, "precious", 8, &id, NULL), 0);
	assert_int_equal(
		content_materialise_at(f->s, &id, CONTENT_LINK_READONLY, f->fd, "given", NULL), 0);
	assert_int_equal(fchmodat(f->fd, "given", 0644, 0), 0);
	write_file(f->fd, "given", "scribble", 8, 0644);
	assert_int_equal(content_verify(f->s, &id, NULL), 0);
}

static void test_move_leaves_shared_files(void **state)
{
	struct fixture *f = *state;
	struct content_id id;

	write_file(f->fd, "one", "shared", 6, 0644);
	assert_int_equal(linkat(f->fd, "one", f->fd, "two", 0), 0);
	assert_int_equal(content_put_at(f->s, f->fd, "one",
					&(struct content_put_options){ .flags = CONTENT_PUT_MOVE },
					&id, NULL),
			 0);
	write_file(f->fd, "two", "SHARED", 6, 0644); /* through the other name */
	assert_int_equal(content_verify(f->s, &id, NULL), 0);
}

static void *put_same(void *arg)
{
	struct content_id id;

	for (int i = 0; i < 200; i++) {
		char bytes[32];

		snprintf(bytes, sizeof(bytes), "blob %d", i);
		if (content_put_bytes(arg, bytes, strlen(bytes), &id, NULL) < 0)
			return arg;
		if (i % 50 == 0 && store_sync(arg, NULL) < 0)
			return arg;
	}
	return NULL;
}

static void test_threads(void **state)
{
	struct fixture *f = *state;
	struct store_stat st;
	pthread_t t[4];
	void *failed;

	for (size_t i = 0; i < ARRAY_LEN(t); i++)
		assert_int_equal(pthread_create(&t[i], NULL, put_same, f->s), 0);
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		pthread_join(t[i], &failed);
		assert_null(failed);
	}
	assert_int_equal(store_stat_all(f->s, &st, NULL), 0);
	assert_int_equal(st.objects[STORE_BLOB], 200);
	assert_int_equal(st.temporaries, 0);
}

/* Small directories, one large one that begins late, a large file: with any number of threads the
 * same tree, and the first error ends all of them. */
static void test_threads_of_a_tree(void **state)
{
	struct fixture *f = *state;
	size_t large = 3 * CONTENT_PART_BYTES;
	uint8_t *bytes = calloc(1, large);
	struct content_id one, many;
	struct err err = { 0 };
	char path[64];

	assert_int_equal(mkdirat(f->fd, "d", 0755), 0);
	for (int i = 0; i < 12; i++) {
		snprintf(path, sizeof(path), "d/%02d", i);
		assert_int_equal(mkdirat(f->fd, path, 0755), 0);
		for (int k = 0; k < (i == 11 ? 300 : 5); k++) {
			snprintf(path, sizeof(path), "d/%02d/%d", i, k);
			write_file(f->fd, path, path, strlen(path), 0644);
		}
	}
	write_file(f->fd, "d/03/large", bytes, large, 0644);
	assert_int_equal(symlinkat("../03/1", f->fd, "d/04/link"), 0);
	assert_int_equal(content_put_at(f->s, f->fd, "d", NULL, &one, &err), 0);
	for (unsigned n = 1; n < 40; n += 6)
		for (int hash_only = 0; hash_only < 2; hash_only++) {
			struct content_put_options o = { .n_threads = n };

			o.flags = hash_only ? CONTENT_PUT_HASH_ONLY : 0;
			assert_int_equal(content_put_at(f->s, f->fd, "d", &o, &many, &err), 0);
			assert_true(content_id_eq(&one, &many));
		}
	assert_int_equal(mkfifoat(f->fd, "d/11/250-pipe", 0644), 0);
	assert_int_equal(content_put_at(f->s, f->fd, "d",
					&(struct content_put_options){ .n_threads = 8 }, &many,
					&err),
			 -1);
	assert_non_null(strstr(err.msg, "d/11/250-pipe"));
	free(bytes);
}

/* Few names, of which some are read for long: threads share them, and then the parts of the huge
 * ones. */
static void test_few_large_files(void **state)
{
	static const char *const names[] = { "a-huge", "b", "c", "d", "e-huge", "f" };
	struct fixture *f = *state;
	size_t large = CONTENT_PART_BYTES + 1;
	uint8_t *bytes = calloc(1, large);
	struct content_id one, many;
	struct err err = { 0 };

	assert_int_equal(mkdirat(f->fd, "few", 0755), 0);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		_cleanup_(freep) char *path = xasprintf("few/%s", names[i]);

		bytes[i] = 1;
		write_file(f->fd, path, bytes, large, 0644);
		if (strstr(path, "huge")) {
			_cleanup_(fd_closep) int fd = openat(f->fd, path, O_WRONLY);

			assert_int_equal(ftruncate(fd, 1024 * (off_t)MIB), 0); /* a hole */
		}
	}
	for (unsigned n = 1; n <= 4; n += 3) {
		struct content_put_options o = { .flags = CONTENT_PUT_HASH_ONLY, .n_threads = n };

		assert_int_equal(content_put_at(f->s, f->fd, "few", &o, &many, &err), 0);
		if (n == 1)
			one = many;
		assert_true(content_id_eq(&one, &many));
	}
	unlinkat(f->fd, "few/a-huge", 0);
	unlinkat(f->fd, "few/e-huge", 0);
	assert_int_equal(content_put_at(f->s, f->fd, "few", NULL, &one, &err), 0);
	for (unsigned n = 2; n < 6; n++) {
		struct content_put_options o = { .n_threads = n };

		bytes[0] = (uint8_t)(n + 1); /* new content each time */
		write_file(f->fd, "few/b", bytes, large, 0644);
		assert_int_equal(content_put_at(f->s, f->fd, "few", &o, &many, &err), 0);
		assert_false(content_id_eq(&one, &many));
		assert_int_equal(content_put_at(f->s, f->fd, "few", NULL, &one, &err), 0);
		assert_true(content_id_eq(&one, &many));
		assert_int_equal(content_verify(f->s, &many, &err), 0);
	}
	free(bytes);
}

static void test_kill_leaves_temporaries_only(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < 20; i++) {
		pid_t pid = fork();
		struct timespec pause = { .tv_nsec = (long)rnd(3000000) };

		assert_true(pid >= 0);
		if (pid == 0) {
			for (uint32_t k = 0;; k++) {
				struct content_id id;
				char bytes[64];

				snprintf(bytes, sizeof(bytes), "%d %u", i, k);
				content_put_bytes(f->s, bytes, strlen(bytes), &id, NULL);
			}
		}
		/* lint: nanosleep because the kill must come at a random moment */
		nanosleep(&pause, NULL);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	assert_int_equal(store_verify(f->s, NULL, NULL, NULL, NULL, NULL), 0);
}

static void test_special_files(void **state)
{
	struct fixture *f = *state;
	struct err err = { 0 };
	struct content_id id;

	assert_int_equal(mkdirat(f->fd, "d", 0755), 0);
	assert_int_equal(mkfifoat(f->fd, "d/pipe", 0644), 0);
	assert_int_equal(content_put_at(f->s, f->fd, "d", NULL, &id, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	assert_non_null(strstr(err.msg, "d/pipe"));
}

static void test_complete(void **state)
{
	struct fixture *f = *state;
	struct content_id id, blob;
	bool present = false;
	char *path;

	assert_int_equal(mkdirat(f->fd, "t", 0755), 0);
	write_file(f->fd, "t/a", "member", 6, 0644);
	assert_int_equal(content_put_at(f->s, f->fd, "t", NULL, &id, NULL), 0);
	assert_int_equal(content_complete(f->s, &id, 1, &present, NULL), 0);
	assert_true(present);
	content_id_of_bytes("member", 6, &blob);
	assert_int_equal(store_delete(f->s, STORE_BLOB, &blob.digest, NULL), 0);
	assert_int_equal(content_complete(f->s, &id, 1, &present, NULL), 0);
	assert_false(present);
	path = blob_path(f, &blob);
	assert_int_equal(access(path, F_OK), -1);
	free(path);
}

static void test_actions(void **state)
{
	struct fixture *f = *state;
	struct arena *arena = arena_new();
	struct content_id a, b;
	struct action_output out = { "o", { .kind = CONTENT_NONE } };
	struct action_record r = { .outputs = &out,
				   .n_outputs = 1,
				   .run_id = "r",
				   .task = "t",
				   .node = "n",
				   .started_ns = 1,
				   .ended_ns = 2 },
			     got, *all;
	struct digest *names, second;
	size_t n;

	memset(r.key.b, 7, sizeof(r.key.b));
	content_put_bytes(f->s, "a", 1, &a, NULL);
	content_put_bytes(f->s, "b", 1, &b, NULL);
	out.id = a;
	assert_int_equal(action_put(f->s, &r, NULL), 0);
	assert_int_equal(action_put(f->s, &r, NULL), 1);
	out.id = b;
	assert_int_equal(action_put(f->s, &r, NULL), 2);
	assert_int_equal(action_put(f->s, &r, NULL), 1);
	assert_int_equal(action_get(f->s, &r.key, arena, &got, NULL), 0);
	assert_true(content_id_eq(&got.outputs[0].id, &a)); /* the first stays */
	assert_int_equal(action_observations(f->s, &r.key, arena, &all, &names, &n, NULL), 0);
	assert_int_equal(n, 2);
	assert_true(digest_eq(&names[0], &r.key));
	action_observation_name(&r.key, 1, &second);
	assert_true(digest_eq(&names[1], &second));
	assert_int_equal(action_replace(f->s, &r, NULL), 0);
	assert_int_equal(action_get(f->s, &r.key, arena, &got, NULL), 0);
	assert_true(content_id_eq(&got.outputs[0].id, &b));
	arena_free(arena);
}

static void test_action_hostile(void **state)
{
	struct arena *arena = arena_new();
	struct action_output out = { "out", { .kind = CONTENT_BLOB, .size_bytes = 3 } };
	struct action_record r = { .outputs = &out,
				   .n_outputs = 1,
				   .run_id = "run",
				   .task = "task",
				   .node = "node" },
			     got;
	struct str bytes = { 0 };

	action_encode(&r, &bytes);
	assert_int_equal(action_decode(bytes.s, bytes.len, arena, &got, NULL), 0);
	for (size_t n = 0; n < bytes.len; n++) /* cut anywhere */
		assert_int_equal(action_decode(bytes.s, n, arena, &got, NULL), -1);
	for (size_t i = 0; i < 8 * bytes.len; i++) { /* any bit flipped: seen */
		bytes.s[i / 8] ^= (char)(1 << i % 8);
		assert_int_equal(action_decode(bytes.s, bytes.len, arena, &got, NULL), -1);
		bytes.s[i / 8] ^= (char)(1 << i % 8);
	}
	/* As the first cairn wrote it: without a digest. Any byte changed there: an error or
	 * another record, never a crash. */
	bytes.s[13] = '1';
	assert_int_equal(action_decode(bytes.s, bytes.len, arena, &got, NULL), -1);
	bytes.len -= DIGEST_BYTES;
	assert_int_equal(action_decode(bytes.s, bytes.len, arena, &got, NULL), 0);
	assert_string_equal(got.outputs[0].name, "out");
	for (size_t i = 0; i < bytes.len; i++) {
		bytes.s[i] ^= 0x5a;
		action_decode(bytes.s, bytes.len, arena, &got, NULL);
		bytes.s[i] ^= 0x5a;
	}
	str_deinit(&bytes);
	arena_free(arena);
}

/* Gc. */

static int no_refs(const void *bytes, size_t n, int (*emit)(void *arg, const struct content_id *id),
		   void *arg, struct err *err)
{
	return 0;
}

static void test_gc(void **state)
{
	struct fixture *f = *state;
	struct content_id live, dead;
	struct store_gc_result res;
	struct store_gc_options o = { .names = &(struct closure_names){ .refs = no_refs },
				      .contents = &live,
				      .n_contents = 1,
				      .grace_ns = 3600 * NS_PER_S,
				      .mark_gap_ns = 3600 * NS_PER_S };
	bool present[2];
	struct content_id both[2];

	content_put_bytes(f->s, "live", 4, &live, NULL);
	content_put_bytes(f->s, "dead", 4, &dead, NULL);
	both[0] = live, both[1] = dead;
	o.now_ns = clock_system()->wall_ns(clock_system());
	assert_int_equal(store_gc(f->s, &o, &res, NULL), 0);
	assert_int_equal(res.young, 1); /* everything is young now: not even condemned */
	o.now_ns += 2 * 3600 * NS_PER_S;
	assert_int_equal(store_gc(f->s, &o, &res, NULL), 0); /* the first mark that finds it */
	assert_int_equal(res.deleted, 0);
	assert_int_equal(store_has(f->s, both, 2, present, NULL), 0);
	assert_true(present[0] && present[1]);
	o.now_ns += 30 * 60 * NS_PER_S; /* too soon */
	assert_int_equal(store_gc(f->s, &o, &res, NULL), 0);
	assert_true(res.first_mark);
	assert_int_equal(res.deleted, 0);
	o.now_ns += 3600 * NS_PER_S;
	o.dry_run = true;
	assert_int_equal(store_gc(f->s, &o, &res, NULL), 0);
	assert_int_equal(res.deleted, 1);
	assert_int_equal(res.deleted_bytes, 4);
	assert_int_equal(store_has(f->s, both, 2, present, NULL), 0);
	assert_true(present[1]);
	o.dry_run = false;
	assert_int_equal(store_gc(f->s, &o, &res, NULL), 0);
	assert_int_equal(res.deleted, 1);
	assert_int_equal(store_has(f->s, both, 2, present, NULL), 0);
	assert_true(present[0]);
	assert_false(present[1]);
}

/* Stat cache. */

static void stat_of(struct fixture *f, const char *name, struct stat *st)
{
	assert_int_equal(fstatat(f->fd, name, st, 0), 0);
}

static void test_statcache(void **state)
{
	struct fixture *f = *state;
	_cleanup_(freep) char *path = xasprintf("%s/cache", f->dir);
	struct content_id id, got;
	struct statcache *c;
	struct stat st;
	int64_t later;

	write_file(f->fd, "file", "12345", 5, 0644);
	stat_of(f, "file", &st);
	content_id_of_bytes("12345", 5, &id);
	later = st.st_ctim.tv_sec * NS_PER_S + st.st_ctim.tv_nsec + 5 * NS_PER_S;
	assert_int_equal(statcache_open(path, &c, NULL), 0);
	assert_false(statcache_get(c, "file", &st, &got));
	statcache_put(c, "file", &st, later - 5 * NS_PER_S,
		      &id); /* hashed in the tick of its last change */
	assert_false(statcache_get(c, "file", &st, &got));
	statcache_put(c, "file", &st, later, &id);
	assert_true(statcache_get(c, "file", &st, &got));
	assert_true(content_id_eq(&id, &got));
	assert_int_equal(statcache_save(c, NULL), 0);
	statcache_free(c);
	assert_int_equal(statcache_open(path, &c, NULL), 0);
	assert_true(statcache_get(c, "file", &st, &got));
	/* same size, mtime set back: the ctime tells */
	write_file(f->fd, "file", "54321", 5, 0644);
	assert_int_equal(utimensat(f->fd, "file", (struct timespec[]){ st.st_atim, st.st_mtim }, 0),
			 0);
	stat_of(f, "file", &st);
	assert_false(statcache_get(c, "file", &st, &got));
	statcache_free(c);
	/* a damaged cache is no cache */
	write_file(AT_FDCWD, path, "garbage", 7, 0644);
	assert_int_equal(statcache_open(path, &c, NULL), 0);
	assert_false(statcache_get(c, "file", &st, &got));
	statcache_free(c);
}

static void test_glob(void **state)
{
	static const struct {
		const char *pattern, *want;
	} cases[] = {
		{ "*.tar", "a.tar b.tar " },
		{ "**/*.tar", "a.tar b.tar sub/c.tar sub/deep/d.tar " },
		{ "*/", "sub " },
		{ "sub/*", "sub/c.tar sub/deep " },
		{ "?.tar", "a.tar b.tar " },
		{ "[b-z]*.tar", "b.tar " },
		{ "nothing*", "" },
		{ ".*", ".hidden " },
	};
	struct fixture *f = *state;
	struct arena *arena = arena_new();
	struct content_id id;

	assert_int_equal(fs_mkdir_p_at(f->fd, "g/sub/deep", 0755, NULL), 0);
	write_file(f->fd, "g/a.tar", "a", 1, 0644);
	write_file(f->fd, "g/b.tar", "b", 1, 0644);
	write_file(f->fd, "g/.hidden", "h", 1, 0644);
	write_file(f->fd, "g/sub/c.tar", "c", 1, 0644);
	write_file(f->fd, "g/sub/deep/d.tar", "d", 1, 0644);
	assert_int_equal(content_put_at(f->s, f->fd, "g", NULL, &id, NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct tree_match *m;
		struct str got = { 0 };
		size_t n;

		str_add(&got, "");
		assert_int_equal(tree_glob(f->s, &id, cases[i].pattern, arena, &m, &n, NULL), 0);
		for (size_t k = 0; k < n; k++)
			str_addf(&got, "%s ", m[k].path);
		assert_string_equal(got.s, cases[i].want);
		str_deinit(&got);
	}
	arena_free(arena);
}

static void ok(int r, const struct err *err)
{
	if (r < 0)
		fail_msg("%s", err->msg);
}

/* File systems' clocks tick every few milliseconds: until what is written next has later times than
 * `path`, by as much as the stat cache wants. */
static void wait_for_ticks(const char *path)
{
	struct stat st;
	struct timespec now;

	assert_int_equal(stat(path, &st), 0);
	do
		assert_int_equal(clock_gettime(CLOCK_REALTIME, &now), 0);
	while ((now.tv_sec - st.st_ctim.tv_sec) * NS_PER_S + now.tv_nsec - st.st_ctim.tv_nsec <
	       30 * NS_PER_MS);
}

/* A program that keeps its file mapped writes to it between two looks, and flushes nothing. */
static void test_writes_by_mmap(void **state)
{
	static const char *const dirs[] = { "/tmp", "/dev/shm" };
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		_cleanup_(freep) char *path = xasprintf("%s/cairn-mmap-%ld", dirs[i],
							(long)getpid()),
				      *cache = xasprintf("%s.cache", path);
		_cleanup_(fd_closep) int fd =
			open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		struct content_put_options o = { 0 };
		struct content_id first, second;
		struct err err = { 0 };
		volatile char *map;

		if (fd < 0)
			continue; /* no such directory here */
		assert_int_equal(ftruncate(fd, 4096), 0);
		map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		assert_true(map != MAP_FAILED);
		map[0] = 'a';
		wait_for_ticks(path);
		assert_int_equal(statcache_open(cache, &o.cache, NULL), 0);
		ok(content_put_at(f->s, AT_FDCWD, path, &o, &first, &err), &err);
		wait_for_ticks(path);
		map[0] = 'b';
		ok(content_put_at(f->s, AT_FDCWD, path, &o, &second, &err), &err);
		assert_false(content_id_eq(&first, &second));
		statcache_free(o.cache);
		munmap((void *)(uintptr_t)map, 4096);
		unlink(path);
	}
}

/* Files that are ours but lie on another file system than the store are copied, whatever their mode
 * and size. */
static void test_another_file_system(void **state)
{
	static const struct content_put_options o = { .flags = CONTENT_PUT_MOVE };
	static const uint64_t sizes[] = { 0, 5, CONTENT_SMALL_BYTES, CONTENT_SMALL_BYTES + 1, MIB };
	struct fixture *f = *state;
	struct stat there, store;
	struct err err = { 0 };

	if (stat("/dev/shm", &there) < 0 || stat(store_uri(f->s), &store) < 0 ||
	    there.st_dev == store.st_dev)
		skip();
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		_cleanup_(freep) char *name = xasprintf("cairn-other-%ld", (long)getpid());
		_cleanup_(fd_closep) int dir = open("/dev/shm", O_RDONLY | O_DIRECTORY | O_CLOEXEC),
					 fd = openat(dir, name,
						     O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
		struct content_id id;

		assert_int_equal(ftruncate(fd, (off_t)sizes[i]), 0);
		ok(content_put_at(f->s, dir, name, &o, &id, &err), &err);
		ok(content_verify(f->s, &id, &err), &err);
		unlinkat(dir, name, 0);
	}
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, store_setup, store_teardown)
	const struct CMUnitTest tests[] = {
		T(test_round_trip),
		T(test_identity),
		T(test_golden),
		T(test_executable),
		cmocka_unit_test(test_hostile_listings),
		T(test_damage),
		T(test_putting_again_heals),
		T(test_inputs_are_copies),
		T(test_move_leaves_shared_files),
		T(test_threads),
		T(test_threads_of_a_tree),
		T(test_few_large_files),
		T(test_kill_leaves_temporaries_only),
		T(test_special_files),
		T(test_complete),
		T(test_actions),
		cmocka_unit_test(test_action_hostile),
		T(test_gc),
		T(test_statcache),
		T(test_writes_by_mmap),
		T(test_another_file_system),
		T(test_glob),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
