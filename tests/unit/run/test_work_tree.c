/* An index and a work tree, compared by times: what is sure is what git says, after random changes,
 * with each version of the format; what isn't read here is unsure; an index cut short is, too. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "core/seeds.h"
#include "run/task/work_tree.h"
#include "unit.h"

static char dir[TEST_DIR_MAX];
static uint64_t rng;

static unsigned roll(unsigned n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (unsigned)(rng >> 33) % n;
}

static int sh(const char *script)
{
	_cleanup_(freep) char *command =
		xasprintf("cd %s/work && export HOME=%s GIT_CONFIG_NOSYSTEM=1 && { %s; } "
			  ">%s/out 2>&1",
			  dir, dir, script, dir);

	return system(command); /* lint: system because git is the judge */
}

/* What the last script printed. */
static void output(struct str *ret)
{
	_cleanup_(freep) char *path = fs_join(dir, "out");

	str_reset(ret);
	assert_int_equal(fs_read_file(path, 1 * MIB, ret, NULL), 0);
	str_addn(ret, "", 0);
}

static bool is_ignored(void *arg, const char *path)
{
	size_t n = strlen(path);

	n -= n > 0 && path[n - 1] == '/';
	return n >= 4 && memcmp(path + n - 4, ".ign", 4) == 0;
}

static enum work_tree_state look(void)
{
	_cleanup_(freep) char *index = xasprintf("%s/work/.git/index", dir),
			      *work = xasprintf("%s/work", dir),
			      *state = xasprintf("%s/work/state", dir);
	_cleanup_(str_deinit) struct str tree = { 0 };
	uint8_t oid[20];

	assert_int_equal(sh("git rev-parse HEAD^{tree}"), 0);
	output(&tree);
	for (int i = 0; i < 20; i++) {
		unsigned byte;

		assert_int_equal(sscanf(tree.s + 2 * i, "%2x", &byte), 1);
		oid[i] = (uint8_t)byte;
	}
	return work_tree_scan(&(struct work_tree_scan){ .index = index,
							.workdir = work,
							.state_dir = state,
							.head_tree = oid,
							.is_ignored = is_ignored });
}

static bool git_says_dirty(void)
{
	_cleanup_(str_deinit) struct str text = { 0 };

	assert_int_equal(sh("git --no-optional-locks status --porcelain --ignore-submodules"), 0);
	output(&text);
	return *text.s != '\0';
}

static int setup(void **state)
{
	_cleanup_(freep) char *work = NULL;

	test_dir(dir, sizeof(dir), "git-index");
	work = fs_join(dir, "work");
	assert_int_equal(mkdir(work, 0755), 0);
	return 0;
}

static int teardown(void **state)
{
	return fs_remove_tree(dir, NULL);
}

/* Names whose order isn't that of a directory's names: `a.b` < `a/` < `a0`. */
#define BEGIN                                                                                     \
	"rm -rf .git * && git init -q . && git config user.name t && "                            \
	"git config user.email t@example.org && echo '*.ign' >.git/info/exclude && "              \
	"mkdir -p a/b a.d a0 state z/y/x && for f in a.b a.txt a/1 a/b/2 a/b.c a0/3 a.d/4 "       \
	"z/y/x/5 "                                                                                \
	"z-a zz; do echo $f >$f; done && chmod +x zz && ln -s zz link && echo no >state/file && " \
	"find . -path ./.git -prune -o -type f -exec touch -d '1 hour ago' {} + && "              \
	"printf 'state\\n*.ign\\n' >.git/info/exclude && "                                        \
	"touch -h -d '1 hour ago' link && git add . && git commit -qm one && git status"

static void test_random_changes(void **state)
{
	static const char *const steps[] = {
		"echo x >>a.b",
		"touch a/1",
		"rm -f a/b/2",
		"rm -rf a.d",
		"rm -rf z",
		"echo n >a/new",
		"echo n >zzz",
		"mkdir -p a/empty/deeper",
		"mkdir -p q && echo x >q/x",
		"echo x >a.ign",
		"mkdir -p b.ign/c && echo x >b.ign/c/d",
		"mkdir -p m && echo x >m/n.ign",
		"chmod -x zz",
		"chmod +x a0/3",
		"ln -sfn a link",
		"rm -f zz; mkdir -p zz",
		"echo x >state/more",
		"git add -A",
		"git commit -qam more",
		"git rm -qr --cached a",
		"git checkout -qf HEAD .",
		"git reset -q --hard; git clean -fdq",
		"git update-index --index-version 2",
		"git update-index --index-version 4",
		"git update-index --refresh",
		"find . -path ./.git -prune -o -type f -exec touch -d '2 hours ago' {} +; git "
		"update-index "
		"-q --refresh",
	};
	struct seeds seeds = seeds_of(1, 4);
	unsigned clean = 0, dirty = 0;

	for (uint64_t seed = seeds.from; seed < seeds.to; seed++) {
		rng = seed * 0x9e3779b97f4a7c15ULL;
		assert_int_equal(sh(BEGIN), 0);
		assert_int_equal(look(), WORK_TREE_CLEAN);
		for (int i = 0; i < 40; i++) {
			const char *step = steps[roll(ARRAY_LEN(steps))];
			enum work_tree_state got;

			(void)sh(step); /* not every step is possible after every other */
			got = look();
			if (got != WORK_TREE_UNSURE && (got == WORK_TREE_DIRTY) != git_says_dirty())
				fail_msg("seed %llu, after `%s`: %d", (unsigned long long)seed,
					 step, got);
			clean += got == WORK_TREE_CLEAN;
			dirty += got == WORK_TREE_DIRTY;
		}
	}
	assert_true(clean >= 2 && dirty >= 20); /* else this shows nothing */
}

static void test_not_for_us(void **state)
{
	static const char *const steps[] = {
		"git update-index --split-index",
		"git update-index --assume-unchanged a.b",
		"git update-index --skip-worktree a.b && rm a.b",
		"echo x >new && git add -N new",
		"mkdir r && git -C r init -q",
		"mkdir r && cd r && git init -q . && git -c user.name=t -c "
		"user.email=t@example.org "
		"commit -q --allow-empty -m one && cd .. && git add r 2>/dev/null",
		"touch a/1",
		"rm .git/index",
		"printf 'DIRC\\0\\0\\0\\5\\0\\0\\0\\1' >.git/index",
		"printf 'DIRC\\0\\0\\0\\2\\377\\377\\377\\377' >.git/index",
	};

	for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
		assert_int_equal(sh(BEGIN), 0);
		assert_int_equal(sh(steps[i]), 0);
		if (look() != WORK_TREE_UNSURE)
			fail_msg("after `%s`", steps[i]);
	}
}

/* An index that ends anywhere is never a clean one. */
static void test_cut(void **state)
{
	_cleanup_(freep) char *path = xasprintf("%s/work/.git/index", dir);
	struct stat st;

	for (int version = 2; version <= 4; version += 2) {
		assert_int_equal(sh(BEGIN), 0);
		assert_int_equal(sh(version == 2 ? "git update-index --index-version 2"
						 : "git update-index --index-version 4"),
				 0);
		assert_int_equal(look(), WORK_TREE_CLEAN);
		assert_int_equal(sh("cp -p .git/index ../index"), 0);
		assert_int_equal(stat(path, &st), 0);
		for (off_t n = 0; n + 20 < st.st_size; n += (off_t)seeds_stride(37)) {
			_cleanup_(freep) char *cut =
				xasprintf("cp -p ../index .git/index && truncate "
					  "-s %lld .git/index",
					  (long long)n);

			assert_int_equal(sh(cut), 0);
			if (n < st.st_size - 300) /* after the tree other extensions follow */
				assert_int_not_equal(look(), WORK_TREE_CLEAN);
			n += 12;
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_random_changes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_not_for_us, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cut, setup, teardown),
	};

	if (system("git --version >/dev/null 2>&1")) /* lint: system because a shell finds it */
		return 0; /* tests/cli/run/git.t says that it is missing */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
