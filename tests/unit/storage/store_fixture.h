/* unit/storage/store_fixture.h — a directory of the test's own with an empty store in it, for each
 * test. What one puts into the directory, the other tests don't see.
 *
 * Include it after cmocka.h. What goes wrong here fails the test.
 */
#ifndef CAIRN_TESTS_UNIT_STORAGE_STORE_FIXTURE_H
#define CAIRN_TESTS_UNIT_STORAGE_STORE_FIXTURE_H

#include <fcntl.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "storage/store.h"
#include "unit.h"

struct fixture {
	char dir[TEST_DIR_MAX];
	int fd;          /* of dir */
	struct store *s; /* in dir/store */
};

static inline int store_setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));
	_cleanup_(freep) char *path = NULL;

	test_dir(f->dir, sizeof(f->dir), "store");
	f->fd = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	path = fs_join(f->dir, "store");
	assert_int_equal(store_open(path, true, &f->s, NULL), 0);
	*state = f;
	return 0;
}

static inline int store_teardown(void **state)
{
	struct fixture *f = *state;

	store_free(f->s);
	close(f->fd);
	fs_remove_tree(f->dir, NULL);
	free(f);
	return 0;
}

#endif
