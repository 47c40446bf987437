/* The bucket interface from the command line: what the tests against real servers drive.
 *
 *   bucket_tool [--endpoint URL] [--region R] [--profile P] [--style path|virtual] [--ca FILE]
 *               [--uploads DIR] [--tries N] [--connections N] [--may N] [--anonymous] URI COMMAND…
 *   put FILE KEY [if-absent] [ENCODING]   get KEY FILE [OFFSET SIZE [VERSION]]   cat KEY [VERSION]
 *	                                    putdir DIR   getdir DIR   head KEY   exist KEY…
 *   rm KEY…   rmall PREFIX   rmif KEY VERSION   ls [PREFIX [AFTER [DELIMITER]]]   count   stale
 *	       probe
 *
 * --may N: what is put may be written by the first N tries only (bucket_put.may).
 * Exit 0; 1: there already, or not that version; 4 with the message on stderr. */
#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "base/text/text.h"
#include "base/time/clock.h"
#include "storage/bucket/bucket.h"
#include "storage/bucket/s3/sigv4.h"

/* Tries that may still write; parts of an upload ask from several threads. */
static atomic_int tries_left = -1;

static bool may_write(void *arg)
{
	return atomic_fetch_sub(&tries_left, 1) > 0;
}

static int failed(const struct err *err)
{
	fprintf(stderr, "error: %s\ncode: %d\n", err->msg, err->code);
	return 4;
}

static uint64_t number(const char *s)
{
	return str_eq(s, "-") ? UINT64_MAX : strtoull(s, NULL, 10);
}

static int put(struct bucket *b, char **a, int n)
{
	struct bucket_put p = { .key = a[1] };
	struct bucket_put *v[] = { &p };
	struct err err = { 0 };
	struct stat st;

	p.fd = open(a[0], O_RDONLY | O_CLOEXEC);
	if (p.fd < 0 || fstat(p.fd, &st) < 0) {
		perror(a[0]);
		return 2;
	}
	p.size = (uint64_t)st.st_size;
	p.if_absent = n > 2 && str_eq(a[2], "if-absent");
	p.encoding = n > 3 ? a[3] : NULL;
	p.may = atomic_load(&tries_left) >= 0 ? may_write : NULL;
	if (bucket_put_many(b, v, 1, &err) < 0)
		return failed(&err);
	close(p.fd);
	return p.result < 0 ? failed(&p.err) : p.result;
}

static int get(struct bucket *b, char **a, int n)
{
	struct bucket_get g = { .key = a[0], .size = UINT64_MAX, .max_bytes = UINT64_MAX };
	struct bucket_get *v[] = { &g };
	struct err err = { 0 };

	g.fd = open(a[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (n > 3) {
		g.offset = number(a[2]);
		g.size = number(a[3]);
	}
	g.version = n > 4 ? a[4] : NULL;
	if (bucket_get_many(b, v, 1, &err) < 0)
		return failed(&err);
	close(g.fd);
	if (g.result < 0)
		return failed(&g.err);
	printf("%llu %s\n", (unsigned long long)g.n, g.encoding);
	return 0;
}

static int cat(struct bucket *b, char **a, int n)
{
	struct bucket_get g = {
		.key = a[0], .size = UINT64_MAX, .fd = -1, .version = n > 1 ? a[1] : NULL
	};
	struct bucket_get *v[] = { &g };
	struct err err = { 0 };
	int r = 0;

	if (bucket_get_many(b, v, 1, &err) < 0)
		return failed(&err);
	if (g.result < 0)
		r = failed(&g.err);
	else
		fwrite(g.body.s, 1, g.body.len, stdout);
	str_deinit(&g.body);
	return r;
}

struct names {
	VEC(char *) v;
	VEC(uint64_t) sizes;
};

static void names_free(struct names *n)
{
	for (size_t i = 0; i < n->v.n; i++)
		free(n->v.v[i]);
	VEC_FREE(&n->v);
	VEC_FREE(&n->sizes);
}

/* Small files through memory, large ones by descriptor. */
static int putdir(struct bucket *b, const char *dir)
{
	struct names names = { 0 };
	DIR *d = opendir(dir);
	struct dirent *e;
	struct err err = { 0 };
	int r = 0;

	while (d && (e = readdir(d)))
		if (e->d_name[0] != '.')
			VEC_PUSH(&names.v, xstrdup(e->d_name));
	closedir(d);
	struct bucket_put *puts = xcalloc(names.v.n + 1, sizeof(*puts)),
			  **v = xcalloc(names.v.n + 1, sizeof(*v));
	struct str *bytes = xcalloc(names.v.n + 1, sizeof(*bytes));

	for (size_t i = 0; i < names.v.n; i++) {
		_cleanup_(freep) char *path = fs_join(dir, names.v.v[i]);
		struct stat st;

		v[i] = &puts[i];
		puts[i].key = names.v.v[i];
		puts[i].fd = -1;
		if (stat(path, &st) == 0 && st.st_size > 1 << 20) {
			puts[i].fd = open(path, O_RDONLY | O_CLOEXEC);
			puts[i].size = (uint64_t)st.st_size;
		} else if (fs_read_file(path, 1 << 20, &bytes[i], &err) == 0) {
			puts[i].bytes = bytes[i].s;
			puts[i].size = bytes[i].len;
		}
	}
	if (bucket_put_many(b, v, names.v.n, &err) < 0)
		r = failed(&err);
	for (size_t i = 0; i < names.v.n; i++) {
		if (r == 0 && puts[i].result < 0)
			r = failed(&puts[i].err);
		if (puts[i].fd >= 0)
			close(puts[i].fd);
		str_deinit(&bytes[i]);
	}
	free(puts);
	free(v);
	free(bytes);
	names_free(&names);
	return r;
}

static int note_name(void *arg, const struct bucket_object *o)
{
	struct names *n = arg;

	VEC_PUSH(&n->v, xstrdup(o->key));
	VEC_PUSH(&n->sizes, o->size);
	return 0;
}

static int getdir(struct bucket *b, const char *dir)
{
	struct names names = { 0 };
	struct err err = { 0 };
	int r = 0;

	if (bucket_list(b, "", NULL, 0, note_name, &names, &err) < 0) {
		names_free(&names);
		return failed(&err);
	}
	struct bucket_get *gets = xcalloc(names.v.n + 1, sizeof(*gets)),
			  **v = xcalloc(names.v.n + 1, sizeof(*v));

	for (size_t i = 0; i < names.v.n; i++) {
		_cleanup_(freep) char *path = fs_join(dir, names.v.v[i]);

		v[i] = &gets[i];
		gets[i] = (struct bucket_get){ .key = names.v.v[i],
					       .size = names.sizes.v[i],
					       .max_bytes = UINT64_MAX,
					       .fd = -1 };
		if (names.sizes.v[i] > 1 << 20)
			gets[i].fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	}
	if (bucket_get_many(b, v, names.v.n, &err) < 0)
		r = failed(&err);
	for (size_t i = 0; i < names.v.n; i++) {
		_cleanup_(freep) char *path = fs_join(dir, names.v.v[i]);

		if (r == 0 && gets[i].result < 0)
			r = failed(&gets[i].err);
		else if (r == 0 && gets[i].fd < 0 &&
			 fs_write_atomic_at(AT_FDCWD, path, gets[i].body.s, gets[i].body.len, 0644,
					    FS_WRITE_NO_SYNC, &err) < 0)
			r = failed(&err);
		if (gets[i].fd >= 0)
			close(gets[i].fd);
		str_deinit(&gets[i].body);
	}
	free(gets);
	free(v);
	names_free(&names);
	return r;
}

static int head(struct bucket *b, const char *key)
{
	struct bucket_object o;
	struct str strings = { 0 }, time = { 0 };
	struct err err = { 0 };
	int r = 0;

	if (bucket_head(b, key, &o, &strings, &err) < 0) {
		r = failed(&err);
	} else {
		text_add_time(&time, o.mtime_ns, 0);
		printf("size=%llu etag=%s version=%s encoding=%s mtime=%s\n",
		       (unsigned long long)o.size, o.etag, o.version, o.encoding, time.s);
	}
	str_deinit(&strings);
	str_deinit(&time);
	return r;
}

static int exist(struct bucket *b, char **a, size_t n)
{
	bool *there = xcalloc(n, sizeof(*there));
	uint64_t *sizes = xcalloc(n, sizeof(*sizes));
	struct err err = { 0 };
	int r = bucket_head_many(b, (const char *const *)a, n, there, sizes, &err);

	for (size_t i = 0; r == 0 && i < n; i++)
		printf("%s %s %llu\n", a[i], there[i] ? "yes" : "no", (unsigned long long)sizes[i]);
	free(there);
	free(sizes);
	return r < 0 ? failed(&err) : 0;
}

static int show(void *arg, const struct bucket_object *o)
{
	int *left = arg;

	printf("%s %llu %s\n", o->key, (unsigned long long)o->size, o->etag);
	return --*left == 0;
}

static int list(struct bucket *b, char **a, int n)
{
	struct err err = { 0 };
	int left = -1;

	if (bucket_list(b, n > 0 ? a[0] : "", n > 1 && *a[1] ? a[1] : NULL, n > 2 ? *a[2] : 0, show,
			&left, &err) < 0)
		return failed(&err);
	return 0;
}

static int remove_all(struct bucket *b, const char *prefix)
{
	struct names names = { 0 };
	struct err err = { 0 };
	int r = bucket_list(b, prefix, NULL, 0, note_name, &names, &err);

	if (r == 0)
		r = bucket_delete_many(b, (const char *const *)names.v.v, names.v.n, &err);
	printf("%zu\n", names.v.n);
	names_free(&names);
	return r < 0 ? failed(&err) : 0;
}

static int count(struct bucket *b)
{
	struct names names = { 0 };
	struct err err = { 0 };
	int r = bucket_list(b, "", NULL, 0, note_name, &names, &err);

	printf("%zu\n", names.v.n);
	names_free(&names);
	return r < 0 ? failed(&err) : 0;
}

static int probe(struct bucket *b)
{
	struct bucket_abilities a;
	struct err err = { 0 };

	if (bucket_probe(b, &a, &err) < 0)
		return failed(&err);
	printf("if_absent=%d checks_body=%d delete_if=%d ranges=%d skew=%lld\n", a.if_absent,
	       a.checks_body, a.delete_if, a.ranges, (long long)(a.clock_skew_ns / NS_PER_S));
	return 0;
}

static int command(struct bucket *b, const char *name, char **a, int n)
{
	struct err err = { 0 };
	uint64_t stale = 0;
	int r;

	if (str_eq(name, "put") && n >= 2)
		return put(b, a, n);
	if (str_eq(name, "get") && n >= 2)
		return get(b, a, n);
	if (str_eq(name, "cat") && n >= 1)
		return cat(b, a, n);
	if (str_eq(name, "putdir") && n == 1)
		return putdir(b, a[0]);
	if (str_eq(name, "getdir") && n == 1)
		return getdir(b, a[0]);
	if (str_eq(name, "head") && n == 1)
		return head(b, a[0]);
	if (str_eq(name, "exist"))
		return exist(b, a, (size_t)n);
	if (str_eq(name, "rm"))
		return bucket_delete_many(b, (const char *const *)a, (size_t)n, &err) < 0
			       ? failed(&err)
			       : 0;
	if (str_eq(name, "rmall") && n == 1)
		return remove_all(b, a[0]);
	if (str_eq(name, "rmif") && n == 2) {
		r = bucket_delete_if(b, a[0], a[1], &err);
		return r < 0 ? failed(&err) : r;
	}
	if (str_eq(name, "ls"))
		return list(b, a, n);
	if (str_eq(name, "count"))
		return count(b);
	if (str_eq(name, "stale")) {
		r = bucket_abort_stale(b, clock_system()->wall_ns(clock_system()) + 3600 * NS_PER_S,
				       &stale, &err);
		printf("%llu\n", (unsigned long long)stale);
		return r < 0 ? failed(&err) : 0;
	}
	if (str_eq(name, "probe"))
		return probe(b);
	fprintf(stderr, "no such command: %s with %d arguments\n", name, n);
	return 2;
}

int main(int argc, char **argv)
{
	struct bucket_options o = { 0 };
	struct bucket *b;
	struct err err = { 0 };
	int i, r;

	for (i = 1; i + 1 < argc && str_has_prefix(argv[i], "--"); i++) {
		const char *name = argv[i] + 2;

		if (str_eq(name, "anonymous")) {
			o.anonymous = true;
			continue;
		}
		i++;
		if (str_eq(name, "endpoint"))
			o.endpoint = argv[i];
		else if (str_eq(name, "region"))
			o.region = argv[i];
		else if (str_eq(name, "profile"))
			o.profile = argv[i];
		else if (str_eq(name, "style"))
			o.style = str_eq(argv[i], "virtual") ? BUCKET_STYLE_VIRTUAL
							     : BUCKET_STYLE_PATH;
		else if (str_eq(name, "uploads"))
			o.uploads_dir = argv[i];
		else if (str_eq(name, "ca"))
			o.ca_file = argv[i];
		else if (str_eq(name, "tries"))
			o.tries = (unsigned)number(argv[i]);
		else if (str_eq(name, "connections"))
			o.max_connections = (unsigned)number(argv[i]);
		else if (str_eq(name, "may"))
			atomic_store(&tries_left, (int)number(argv[i]));
	}
	if (argc - i < 2) {
		fprintf(stderr, "usage: bucket_tool [options] URI COMMAND...\n");
		return 2;
	}
	if (bucket_open(argv[i], &o, &b, &err) < 0)
		return failed(&err);
	else
		r = command(b, argv[i + 1], argv + i + 2, argc - i - 2);
	bucket_free(b);
	return r;
}
