#include <errno.h>
#include <string.h>
#include "base/mem.h"
#include "storage/bucket/transfer.h"
#include "unit.h"

static void test_slots_halve_and_grow(void **state)
{
	struct transfer *t = transfer_new(16, 3);

	assert_int_equal(transfer_limit(t), 16);
	transfer_begin(t);
	transfer_end(t, TRANSFER_THROTTLED);
	assert_int_equal(transfer_limit(t), 8);
	transfer_begin(t);
	transfer_end(t, TRANSFER_THROTTLED); /* the same moment: those under way didn't know */
	assert_int_equal(transfer_limit(t), 8);
	for (int i = 0; i < 8 + 1; i++) {
		transfer_begin(t);
		transfer_end(t, TRANSFER_FINE);
	}
	assert_int_equal(transfer_limit(t), 9);
	for (int i = 0; i < 1000; i++) {
		transfer_begin(t);
		transfer_end(t, TRANSFER_FINE);
	}
	assert_int_equal(transfer_limit(t), 16);
	transfer_begin(t);
	transfer_end(t, TRANSFER_FAILED);
	assert_int_equal(transfer_limit(t), 16);
	transfer_free(t);
}

static void test_jitter_is_full_and_bounded(void **state)
{
	assert_int_equal(transfer_jitter_ns(1, 0), 0);
	assert_in_range(transfer_jitter_ns(1, UINT64_MAX), 99 * NS_PER_MS, 100 * NS_PER_MS);
	assert_in_range(transfer_jitter_ns(3, UINT64_MAX), 399 * NS_PER_MS, 400 * NS_PER_MS);
	assert_in_range(transfer_jitter_ns(3, UINT64_MAX / 2), 199 * NS_PER_MS, 201 * NS_PER_MS);
	for (unsigned tries = 9; tries < 100; tries++)
		assert_in_range(transfer_jitter_ns(tries, UINT64_MAX), 19 * NS_PER_S,
				20 * NS_PER_S);
}

static void test_tries_end(void **state)
{
	const struct http_request silent = { 0 };
	struct transfer *t = transfer_new(1, 2);

	assert_true(transfer_retry(t, 1, &silent));
	assert_false(transfer_retry(t, 2, &silent));
	transfer_free(t);
}

static void test_dates(void **state)
{
	int64_t t = 0;

	assert_true(http_parse_date("Fri, 24 May 2013 00:00:00 GMT", 29, &t));
	assert_int_equal(t, 1369353600LL * NS_PER_S);
	assert_false(http_parse_date("Fri, 24 Mai 2013 00:00:00 GMT", 29, &t));
	assert_false(http_parse_date("Fri, 24 May 2013 00:00:00 GMT and what else there may be", 53,
				     &t));
	assert_false(http_parse_date("Fri, 24 ayJ 2013 00:00:00 GMT", 29, &t));
	assert_false(http_parse_date("", 0, &t));
	assert_false(http_parse_date("2013-05-24T00:00:00Z", 20, &t));
}

static void test_ranges(void **state)
{
	uint64_t a, b, c;
	static const char *const bad[] = { "",
					   "bytes",
					   "bytes 0-1",
					   "bytes 0-1/*",
					   "bytes */5",
					   "bytes 2-1/5",
					   "bytes 0-5/5",
					   "bytes 0-1/5 ",
					   "bytes -1-2/5",
					   "bytes 99999999999999999999-2/5",
					   "items 0-1/5" };

	assert_true(transfer_parse_range("bytes 5-9/10", &a, &b, &c));
	assert_int_equal(a, 5);
	assert_int_equal(b, 9);
	assert_int_equal(c, 10);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_false(transfer_parse_range(bad[i], &a, &b, &c));
}

/* The network may be there again in a moment; a full disk of ours won't. */
static void test_what_is_worth_another_try(void **state)
{
	static const struct {
		struct err err;
		long status;
		bool again;
	} cases[] = {
		{ { .code = ERR_IO }, 0, true },
		{ { .code = ERR_IO, .sys = EIO }, 0, false },
		{ { .code = ERR_IO, .sys = EFBIG }, 200, false },
		{ { .code = ERR_NO_SPACE, .sys = ENOSPC }, 0, false },
		{ { .code = ERR_NONE }, 503, true },
		{ { .code = ERR_NONE }, 507, false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct http_request r = { .err = cases[i].err,
						.reply = { .status = cases[i].status } };

		assert_int_equal(http_is_transient(&r), cases[i].again);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_worth_another_try),
		cmocka_unit_test(test_slots_halve_and_grow),
		cmocka_unit_test(test_jitter_is_full_and_bounded),
		cmocka_unit_test(test_tries_end),
		cmocka_unit_test(test_dates),
		cmocka_unit_test(test_ranges),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
