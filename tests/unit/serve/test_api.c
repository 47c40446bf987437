#include <string.h>
#include "base/net/mail.h"
#include "base/text/json.h"
#include "serve/internal.h"
#include "unit.h"

static void signature(void **state)
{
	struct str out = { 0 };

	notify_sign("key", 3, 1700000000, "{}", 2, &out);
	/* printf '1700000000.{}' | openssl dgst -sha256 -hmac key */
	assert_string_equal(
		out.s,
		"t=1700000000,v1=9d713ed406bb7076d4123f0dc2c39d2df5c654ed4b0cd56b52c8b4c940bd63ae");
	str_deinit(&out);
}

/* The first row is the example of the specification's reference implementations. */
static void deliveries(void **state)
{
	static const char whsec[] = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
	static const char body[] = "{\"test\": 2432232314}";
	static const char right[] = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
	static const struct {
		const char *id, *timestamp, *signature, *secret;
		int64_t now_s;
		bool good;
	} rows[] = {
		{ "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", right, whsec, 1614265330, true },
		{ "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", right, whsec, 1614265630, true },
		{ "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", right, whsec, 1614265030, true },
		{ "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", right, whsec, 1614265631, false },
		{ "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", right, whsec, 1614265029, false },
		/* several signatures, of several keys or versions */
		{ "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330",
		  "v1a,xyz v1,AAAA v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", whsec,
		  1614265330, true },
		{ "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330",
		  "v2,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", whsec, 1614265330, false },
		{ "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330",
		  "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OF=", whsec, 1614265330, false },
		{ "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330",
		  "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1O", whsec, 1614265330, false },
		{ "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", "", whsec, 1614265330, false },
		{ "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", NULL, whsec, 1614265330, false },
		{ "msg_p5jXN8AQM9LWM0D4loKWxJek", NULL, right, whsec, 1614265330, false },
		{ NULL, "1614265330", right, whsec, 1614265330, false },
		{ "another", "1614265330", right, whsec, 1614265330, false },
		{ "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265331", right, whsec, 1614265330, false },
		{ "msg_p5jXN8AQM9LWM0D4loKWxJek", "soon", right, whsec, 1614265330, false },
		{ "msg_p5jXN8AQM9LWM0D4loKWxJek", "9223372036854775807", right, whsec, 1614265330,
		  false },
		{ "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", right, "whsec_", 1614265330,
		  false },
		{ "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", right, "whsec_?", 1614265330,
		  false },
		{ "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", right, "", 1614265330, false },
		{ "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", right,
		  "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", 1614265330, false },
		/* printf 'a.1614265330.{"test": 2432232314}' | openssl dgst -sha256 -hmac key
		   -binary | base64 */
		{ "a", "1614265330", "v1,CNQd9zfYjecPeqBWWBJSo2kaGlTi2VbRJJ49ondheLc=", "key",
		  1614265330, true },
		{ "a b", "1614265330", "v1,JQ7GMeDdfrIuIYWaLTqRFVKsv022oAHOVd5Xf0BXEzk=", "key",
		  1614265330, false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct hook_delivery d = { rows[i].id, rows[i].timestamp, rows[i].signature, body,
					   strlen(body) };

		if (hook_verify(&d, rows[i].secret, strlen(rows[i].secret),
				rows[i].now_s * NS_PER_S) != rows[i].good)
			fail_msg("row %zu", i);
	}
}

static void addresses(void **state)
{
	static const struct {
		const char *address;
		bool valid;
	} rows[] = {
		{ "a@example.org", true },
		{ "a.b+c@x", true },
		{ "a", false },
		{ "@x", false },
		{ "a@", false },
		{ "a b@x", false },
		{ "a@x\r\nRCPT TO:<b@x>", false },
		{ "<a@x>", false },
		{ "-a@x", false },
		{ "a@x,b@y", false },
		{ "\xc3\xa4@x", false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_int_equal(mail_address_is_valid(rows[i].address), rows[i].valid);
}

static void message(void **state)
{
	static const char *const to[] = { "a@example.org", "b@example.org" };
	struct mail m = { .from = "me@example.org",
			  .to = to,
			  .n_to = 2,
			  .subject = "gr\xc3\xb6\xc3\x9f\x65r\r\nBcc: evil@example.org",
			  .body = "one\n.\ntwo",
			  .id = "7f",
			  .wall_ns = 1700000000LL * NS_PER_S };
	struct str out = { 0 };

	mail_add_message(&out, &m);
	assert_non_null(strstr(out.s, "Date: Tue, 14 Nov 2023 22:13:20 +0000\r\n"));
	assert_non_null(strstr(out.s, "To: <a@example.org>,\r\n <b@example.org>\r\n"));
	assert_non_null(strstr(out.s, "Subject: =?UTF-8?Q?gr=C3=B6=C3=9Fer"));
	assert_null(strstr(out.s, "\nBcc:"));
	assert_non_null(strstr(out.s, "Message-ID: <7f@example.org>\r\n"));
	assert_non_null(strstr(out.s, "\r\n\r\none\r\n.\r\ntwo\r\n"));
	for (const char *c = strchr(out.s, '\n'); c; c = strchr(c + 1, '\n'))
		assert_int_equal(c[-1], '\r');
	str_deinit(&out);
}

/* RFC 5322, 2.1.1: at most 998 bytes, also where each byte is sent as an escape of four. */
static void long_lines(void **state)
{
	static const char *const to[] = { "a@example.org" };
	char *fill = malloc(5001);
	struct mail m = { .from = "me@example.org", .to = to, .n_to = 1, .id = "7f" };

	assert_non_null(fill);
	for (int c = 1; c < 256; c += 31) {
		_cleanup_(str_deinit) struct str out = { 0 };

		memset(fill, c, 5000);
		fill[5000] = '\0';
		m.subject = m.body = fill;
		mail_add_message(&out, &m);
		for (const char *at = out.s, *end; *at; at = end + 2) {
			end = strstr(at, "\r\n");
			assert_non_null(end);
			assert_true(end - at <= 998);
		}
	}
	free(fill);
}

/* Every name that a route refers to is there, and every schema is used. */
static void description(void **state)
{
	json_t *d = api_openapi(),
	       *schemas = json_object_get(json_object_get(d, "components"), "schemas"), *v;
	_cleanup_(str_deinit) struct str text = { 0 };
	const char *name;

	assert_non_null(d);
	json_add_canonical(&text, d);
	json_object_foreach(schemas, name, v)
	{
		_cleanup_(str_deinit) struct str ref = { 0 };

		str_addf(&ref, "\"#/components/schemas/%s\"", name);
		assert_non_null(strstr(text.s, ref.s));
	}
	for (const struct api_route *r = api_routes; r->method; r++) {
		assert_non_null(r->handle);
		if (!r->answer)
			assert_int_equal(r->status, 204);
		else
			assert_true(strchr(r->answer, '/') || json_object_get(schemas, r->answer));
		assert_true(!r->body || json_object_get(schemas, r->body));
		/* What isn't a GET says who may: by a role, a signature, or that it changes
		 * nothing. */
		assert_int_equal(strcmp(r->method, "GET") == 0 && !(r->flags & API_OPEN),
				 (r->flags & (API_CHANGES | API_SIGNED | API_ASKS | API_OPEN)) ==
					 0);
		assert_true(strcmp(r->method, "GET") != 0 ||
			    !(r->flags & (API_CHANGES | API_SIGNED | API_ASKS)));
	}
	json_decref(d);
}

static void listening(void **state)
{
	static const struct {
		const char *address;
		int code;
		bool local;
	} rows[] = {
		{ "127.0.0.1:0", 0, true },
		{ "localhost:0", 0, true },
		{ "127.9.9.9:0", 0, true },
		{ "0.0.0.0:0", 0, false },
		{ "127.0.0.1", ERR_USAGE, 0 },
		{ "127.0.0.1:65536", ERR_USAGE, 0 },
		{ "127.0.0.1:-1", ERR_USAGE, 0 },
		{ "127.0.0.1:+1", ERR_USAGE, 0 },
		{ ":80", ERR_USAGE, 0 },
		{ "host.example:80", ERR_USAGE, 0 },
		{ "[::1:80", ERR_USAGE, 0 },
		{ "unix:", ERR_USAGE, 0 },
		{ "", ERR_USAGE, 0 },
		{ "1.2.3:80", ERR_USAGE, 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct listener l;
		struct err err = { 0 };
		int r = listener_open(rows[i].address, &l, &err);

		assert_int_equal(err.code, rows[i].code);
		if (r < 0)
			continue;
		assert_int_equal(l.local, rows[i].local);
		listener_close(&l);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(signature),  cmocka_unit_test(deliveries),
		cmocka_unit_test(addresses),  cmocka_unit_test(message),
		cmocka_unit_test(long_lines), cmocka_unit_test(description),
		cmocka_unit_test(listening),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
