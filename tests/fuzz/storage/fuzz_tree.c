/* Tree listings from bytes. What is accepted must be canonical: built again from its entries it
 * gives the same bytes. Then it is walked as a stranger's tree is: looked up in, globbed, checked
 * and laid out, with members that don't exist. */
#include <fcntl.h>
#include <stdio.h>
#include "base/os/fs.h"
#include "storage/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "fuzz_tree: %s\n", what);
	abort();
}

static enum content_kind kind_of(const struct tree_entry *e)
{
	switch (e->kind) {
	case TREE_DIR:
		return CONTENT_TREE;
	case TREE_EXECUTABLE:
		return CONTENT_EXECUTABLE;
	case TREE_FILE:
	case TREE_SYMLINK:
	case TREE_REFERENCE:
		return CONTENT_BLOB;
	}
	abort();
}

static void check_entry(const struct tree *t, const struct tree_entry *e)
{
	must(strlen(e->name) == e->name_len && e->name_len > 0 && !strchr(e->name, '/'),
	     "a name that no file can have");
	must(strcmp(e->name, ".") != 0 && strcmp(e->name, "..") != 0,
	     "a name that leads elsewhere");
	must(tree_find(t, e->name, e->name_len) == e, "an entry can't be found by its name");
	must((e->kind == TREE_SYMLINK) == (e->target != NULL), "a target is only with a link");
	must((e->kind == TREE_REFERENCE) == (e->ref != NULL),
	     "only a reference means something outside");
	must(!tree_entry_is_kept(e) || e->id.kind == kind_of(e), "content of the wrong kind");
}

static void build_again(struct store *s, const struct tree *t, const uint8_t *data, size_t size,
			struct content_id *ret)
{
	struct tree_builder *b = tree_builder_new();
	struct str bytes = { 0 };

	for (size_t i = tree_len(t); i-- > 0;) {
		check_entry(t, tree_at(t, i));
		must(tree_builder_add(b, tree_at(t, i), NULL) == 0,
		     "an entry was decoded that can't be built");
	}
	must(tree_builder_store(b, s, ret, NULL) == 0, "it can't be stored again");
	must(content_read(s, ret, size, &bytes, NULL) == 0 && bytes.len == size &&
		     memcmp(bytes.s, data, size) == 0,
	     "it isn't canonical");
	str_deinit(&bytes);
	tree_builder_free(b);
}

static bool has_blobs(const struct tree *t)
{
	for (size_t i = 0; i < tree_len(t); i++)
		if (tree_entry_is_kept(tree_at(t, i)))
			return true;
	return false;
}

static bool has_references(const struct tree *t)
{
	for (size_t i = 0; i < tree_len(t); i++)
		if (tree_at(t, i)->kind == TREE_REFERENCE)
			return true;
	return false;
}

static void walk(struct store *s, const struct tree *t, const struct content_id *root)
{
	static const char *const patterns[] = { "*", "**", "**/a*/", "[a-z]?/*" };
	struct arena *arena = arena_new();
	struct tree_entry e;
	struct tree_match *m;
	bool complete = true;
	size_t n;

	for (size_t i = 0; i < ARRAY_LEN(patterns); i++)
		if (tree_glob(s, root, patterns[i], arena, &m, &n, NULL) == 0)
			must(n <= tree_len(t), "more matches than entries");
	for (size_t i = 0; i < tree_len(t); i++)
		must(tree_lookup(s, root, tree_at(t, i)->name, arena, &e, NULL) == 0 &&
			     e.kind == tree_at(t, i)->kind,
		     "a look-up failed");
	must(content_complete(s, root, 1, &complete, NULL) == 0 && complete == !has_blobs(t),
	     "members that aren't there were found");
	must((content_verify(s, root, NULL) == 0) == complete, "verify and complete don't agree");
	arena_free(arena);
}

static void lay_out(struct store *s, const struct content_id *root)
{
	char dir[] = "/tmp/cairn-fuzz-tree-XXXXXX";
	int fd;

	if (!mkdtemp(dir))
		return;
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0 && content_materialise_at(s, root, CONTENT_LINK_READONLY, fd, "out", NULL) < 0)
		must(faccessat(fd, "out", F_OK, AT_SYMLINK_NOFOLLOW) < 0,
		     "half a directory was left");
	close(fd);
	fs_remove_tree(dir, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(tree_freep) struct tree *t = NULL;
	struct content_id root;
	struct store *s;

	if (size > 4 * KIB || tree_decode(data, size, &t, NULL) < 0)
		return 0;
	s = store_memory_new();
	build_again(s, t, data, size, &root);
	walk(s, t, &root);
	if (!has_references(t)) /* they would be fetched */
		lay_out(s, &root);
	store_free(s);
	return 0;
}
