/* What comes in ranges is hashed as it comes: in whatever order parts end, however often they begin
 * again, and whatever a server says. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/mem.h"
#include "core/seeds.h"
#include "storage/bucket/ranged.h"
#include "storage/internal.h"
#include "unit.h"

#define PART   CONTENT_PART_BYTES
#define TAIL   123457
#define OBJECT (3 * PART + TAIL)
#define PARTS  4
#define CHUNK  300007

/* A server, and what it does wrong. Places are those of the object. */
struct fake {
	char *object;
	uint64_t size;
	bool last_first;         /* the second part's answer waits until the last one's was taken */
	bool no_ranges;          /* 200, with everything */
	bool cut;                /* each part's first answer ends early, and says nothing */
	bool reset;              /* each part's first try breaks off in the middle */
	bool junk;               /* what a first try brings is other bytes */
	const char *encoding;    /* or NULL */
	bool encoding_at_first;  /* only the first answer says so */
	uint64_t damaged;        /* + 1: this byte arrives as another one */
	uint64_t other_size;     /* the second part's answer says that the object ends there */
	uint64_t first_try_size; /* a first try speaks of an object of so many bytes */
	atomic_int requests;
	pthread_mutex_t lock;
	pthread_cond_t ended;
	bool last_ended;
};

static uint64_t size_now(const struct fake *f, uint64_t from, unsigned try)
{
	if (f->other_size && from == PART)
		return f->other_size;
	return try == 0 && f->first_try_size ? f->first_try_size : f->size;
}

static int send_piece(struct fake *f, struct ranged_part *p, uint64_t at, uint64_t n, bool junk,
		      struct err *err)
{
	_cleanup_(freep) char *bytes = xmalloc(n);
	uint64_t there = at < f->size ? MIN(f->size - at, n) : 0;

	memcpy(bytes, f->object + MIN(at, f->size), there);
	memset(bytes + there, 'x', n - there);
	if (junk)
		memset(bytes, '#', n);
	if (f->damaged > at && f->damaged <= at + n)
		bytes[f->damaged - 1 - at] ^= 1;
	return p->sink(p, bytes, n, err);
}

/* One try: 0 all was taken, 1 again, -1 the sink's error. */
static int try_once(struct fake *f, struct ranged_part *p, unsigned try, struct err *err)
{
	unsigned long long from = 0, last = UINT64_MAX;
	struct http_request reply = { .reply.status = 200 };
	uint64_t size, end;
	bool junk = f->junk && try == 0;
	int r = 0;

	if (p->range)
		assert_int_equal(sscanf(p->range, "bytes=%llu-%llu", &from, &last), 2);
	size = size_now(f, from, try);
	end = MIN((uint64_t)last, size - 1) + 1;
	if (f->no_ranges || !p->range) {
		from = 0;
		end = size;
	} else {
		reply.reply.status = 206;
		str_addf(&reply.reply.headers, "Content-Range: bytes %llu-%llu/%llu\r\n", from,
			 (unsigned long long)end - 1, (unsigned long long)size);
	}
	if (try == 0 && (f->cut || f->reset))
		end -= (end - from) / 2;
	p->reply = &reply;
	p->rewind(p);
	for (uint64_t at = from; r == 0 && at < end; at += CHUNK)
		r = send_piece(f, p, at, MIN(end - at, (uint64_t)CHUNK), junk, err);
	if (r == 0)
		r = (try == 0 && (f->reset || f->first_try_size)) || p->check(p, &reply, err) < 0;
	snprintf(p->encoding, sizeof(p->encoding), "%s",
		 f->encoding && (!f->encoding_at_first || from == 0) ? f->encoding : "");
	str_deinit(&reply.reply.headers);
	return r;
}

static void wait_for_last(struct fake *f, const struct ranged_part *p)
{
	char second[64];

	snprintf(second, sizeof(second), "bytes=%llu-", (unsigned long long)PART);
	if (!f->last_first || !p->range || strncmp(p->range, second, strlen(second)) != 0)
		return;
	pthread_mutex_lock(&f->lock);
	while (!f->last_ended)
		pthread_cond_wait(&f->ended, &f->lock);
	pthread_mutex_unlock(&f->lock);
}

static void note_last(struct fake *f, const struct ranged_part *p)
{
	char last[64];

	snprintf(last, sizeof(last), "bytes=%llu-", (unsigned long long)(3 * PART));
	pthread_mutex_lock(&f->lock);
	f->last_ended |= p->range && strncmp(p->range, last, strlen(last)) == 0;
	pthread_cond_broadcast(&f->ended);
	pthread_mutex_unlock(&f->lock);
}

static int request(void *store, const struct bucket_get *g, struct ranged_part *p, struct err *err)
{
	struct fake *f = store;
	int r = 1;

	atomic_fetch_add(&f->requests, 1);
	if (p->range && f->size == 0)
		return 1;
	wait_for_last(f, p);
	for (unsigned try = 0; r > 0 && try < 3; try++)
		r = try_once(f, p, try, err);
	note_last(f, p);
	return r ? -1 : 0;
}

/* OBJECT bytes for all tests; a smaller object is their beginning. */
static char *object;

static int make_object(void **state)
{
	uint64_t x = 88172645463325252ULL;

	object = xmalloc(OBJECT + sizeof(x));
	for (uint64_t i = 0; i < OBJECT; i += sizeof(x)) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		memcpy(object + i, &x, sizeof(x));
	}
	return 0;
}

static int free_object(void **state)
{
	free(object);
	return 0;
}

/* Fetches it from `offset` on. The file is the caller's. */
static struct bucket_get get(struct fake *f, uint64_t offset)
{
	struct bucket_get g = { .key = "k",
				.offset = offset,
				.size = UINT64_MAX,
				.hash = true,
				.fd = memfd_create("ranged", MFD_CLOEXEC) };
	struct bucket_get *v = &g;
	atomic_bool no_ranges = false;
	struct ranged r = { .request = request, .store = f, .no_ranges = &no_ranges };

	assert_true(g.fd >= 0);
	pthread_mutex_init(&f->lock, NULL);
	pthread_cond_init(&f->ended, NULL);
	ranged_get_many(&r, 4, &v, 1);
	pthread_cond_destroy(&f->ended);
	pthread_mutex_destroy(&f->lock);
	return g;
}

/* The file has these bytes, and its digest is theirs. */
static void assert_landed(const struct bucket_get *g, const char *bytes, uint64_t n)
{
	static uint64_t whole_n = UINT64_MAX; /* most tests fetch one object: it is hashed once */
	static struct content_id whole;
	struct content_id id;
	char *landed;

	assert_int_equal(g->n, n);
	assert_int_equal(lseek(g->fd, 0, SEEK_END), n);
	landed = mmap(NULL, n + 1, PROT_READ, MAP_SHARED, g->fd, 0);
	assert_true(landed != MAP_FAILED);
	assert_true(n == 0 || memcmp(landed, bytes, n) == 0);
	munmap(landed, n + 1);
	if (bytes != object || n != whole_n)
		content_id_of_bytes(bytes, n, &id);
	else
		id = whole;
	if (bytes == object) {
		whole = id;
		whole_n = n;
	}
	assert_true(g->hashed);
	assert_true(digest_eq(&g->digest, &id.digest));
}

/* The digest is that of what lies in the file, whose size is n. */
static void assert_says_what_landed(const struct bucket_get *g)
{
	struct digest landed;
	struct err err = { 0 };

	assert_int_equal(lseek(g->fd, 0, SEEK_END), g->n);
	assert_int_equal(content_hash_fd(g->fd, g->n, 1, &landed, &err), 0);
	assert_true(g->hashed);
	assert_true(digest_eq(&g->digest, &landed));
}

static void assert_whole(struct fake *f, uint64_t offset)
{
	struct bucket_get g = get(f, offset);

	if (g.result < 0)
		fail_msg("%s", g.err.msg);
	assert_landed(&g, f->object + offset, f->size - offset);
	close(g.fd);
}

static void test_whole(void **state)
{
	static const uint64_t sizes[] = { 0, 1, PART - 1, PART, PART + 1, 2 * PART, OBJECT };

	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		struct fake f = { .object = object, .size = sizes[i] };

		assert_whole(&f, 0);
		f.no_ranges = true;
		assert_whole(&f, 0);
	}
}

static void test_bad_days(void **state)
{
	struct fake days[] = {
		{ .last_first = true },
		{ .cut = true },
		{ .cut = true, .junk = true },
		{ .reset = true },
		{ .reset = true, .junk = true },
		{ .reset = true, .junk = true, .last_first = true },
		{ .reset = true, .junk = true, .no_ranges = true },
		{ .first_try_size = OBJECT + PART, .junk = true },
		{ .first_try_size = OBJECT + 5, .junk = true, .no_ranges = true },
	};

	for (size_t i = 0; i < ARRAY_LEN(days); i++) {
		days[i].object = object;
		days[i].size = OBJECT;
		assert_whole(&days[i], 0);
		if (!days[i].no_ranges && !days[i].last_first && !days[i].first_try_size)
			assert_int_equal(days[i].requests, PARTS);
	}
}

static void test_from_an_offset(void **state)
{
	struct fake f = { .object = object, .size = OBJECT };

	assert_whole(&f, 1);
	assert_whole(&f, PART + 4711);
}

/* One byte in each part, at its beginning, in it, at its end. */
static void test_damaged_bytes(void **state)
{
	static const uint64_t places[] = { 0,        77,           PART - 1,  PART,
					   PART + 1, 2 * PART - 1, 2 * PART,  3 * PART - 1,
					   3 * PART, 3 * PART + 9, OBJECT - 1 };
	struct content_id want;

	content_id_of_bytes(object, OBJECT, &want);
	for (size_t i = 0; i < ARRAY_LEN(places); i += seeds_stride(4)) {
		struct fake f = { .object = object, .size = OBJECT, .damaged = places[i] + 1 };
		struct bucket_get g = get(&f, 0);

		assert_int_equal(g.result, 0);
		assert_says_what_landed(&g);
		assert_false(digest_eq(&g.digest, &want.digest));
		close(g.fd);
	}
}

/* A part that ends early, because its answer speaks of a smaller object, leaves a hole. */
static void test_holes(void **state)
{
	struct fake f = { .object = object, .size = OBJECT, .other_size = PART + 1000 };
	struct bucket_get g = get(&f, 0);

	assert_int_equal(g.result, -1);
	assert_int_equal(g.err.code, ERR_IO);
	assert_non_null(strstr(g.err.msg, "leave out bytes of k"));
	assert_false(g.hashed);
	close(g.fd);
}

static void test_encoded_bytes_are_no_blob(void **state)
{
	struct fake f = { .object = object, .size = OBJECT, .encoding = "zstd" };

	for (int i = 0; i < 2; i++) {
		struct bucket_get g = get(&f, 0);

		assert_int_equal(g.result, 0);
		assert_string_equal(g.encoding, i ? "" : "zstd");
		assert_int_equal(g.n, OBJECT);
		assert_false(g.hashed);
		close(g.fd);
		f.encoding_at_first = true;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole),
		cmocka_unit_test(test_bad_days),
		cmocka_unit_test(test_from_an_offset),
		cmocka_unit_test(test_damaged_bytes),
		cmocka_unit_test(test_holes),
		cmocka_unit_test(test_encoded_bytes_are_no_blob),
	};

	return cmocka_run_group_tests(tests, make_object, free_object);
}
