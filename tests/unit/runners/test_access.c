/* runners/kubernetes/api/access: what the files of a pod's service account say. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "runners/kubernetes/api/access.h"
#include "unit.h"

static void put(const char *dir, const char *name, const char *text)
{
	_cleanup_(freep) char *path = fs_join(dir, name);

	assert_int_equal(fs_write_atomic(path, text, strlen(text), NULL), 0);
}

/* A namespace that can't be read is none that may be guessed. */
static void namespace_of_a_pod(void **state)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	char dir[] = "/tmp/cairn-access.XXXXXX";
	struct kube_access_options o = { .account_dir = dir };
	struct kube_access a;
	struct err err = { 0 };
	_cleanup_(freep) char *path = NULL;

	assert_non_null(mkdtemp(dir));
	path = fs_join(dir, "namespace");
	setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1", 1);
	setenv("KUBECONFIG", "/nowhere/config", 1);
	put(dir, "ca.crt", "certificates");
	assert_int_equal(kube_access_load(&o, arena, &a, NULL), 0);
	assert_string_equal(a.namespace_, "default");
	put(dir, "namespace", "team\n");
	assert_int_equal(kube_access_load(&o, arena, &a, NULL), 0);
	assert_string_equal(a.namespace_, "team");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0755), 0);
	assert_int_equal(kube_access_load(&o, arena, &a, &err), -1);
	assert_non_null(strstr(err.msg, "set kubernetes.namespace"));
	o.namespace_ = "mine";
	assert_int_equal(kube_access_load(&o, arena, &a, NULL), 0);
	assert_string_equal(a.namespace_, "mine");
	assert_int_equal(fs_remove_tree(dir, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(namespace_of_a_pod),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
