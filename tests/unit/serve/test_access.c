/* Who may use the server: limits of clients, ends of sessions, tickets of artifacts, types of
 * files. */
#include "unit.h"

#include "base/time/clock.h"
#include "serve/access/clients.h"
#include "serve/access/sessions.h"
#include "serve/view/ticket.h"
#include "serve/view/view.h"

#define START (1000 * NS_PER_S)

static void a_client_has_a_burst_and_a_rate(void **state)
{
	struct clients *c = clients_new();
	int64_t now = START;

	for (int i = 0; i < CLIENT_BURST; i++)
		assert_true(clients_ask(c, "192.0.2.1", now));
	assert_false(clients_ask(c, "192.0.2.1", now));
	assert_true(clients_ask(c, "192.0.2.2", now));
	now += NS_PER_S;
	for (int i = 0; i < CLIENT_REQUESTS_S; i++)
		assert_true(clients_ask(c, "192.0.2.1", now));
	assert_false(clients_ask(c, "192.0.2.1", now));
	clients_free(c);
}

/* A customer has 64 bits of addresses: they count as one. */
static void a_network_of_ipv6_is_one_client(void **state)
{
	struct clients *c = clients_new();

	for (int i = 0; i < CLIENT_BURST; i++) {
		char address[40];

		snprintf(address, sizeof(address), "2001:db8:0:1::%x", i);
		assert_true(clients_ask(c, address, START));
	}
	assert_false(clients_ask(c, "2001:db8:0:1:ffff::1", START));
	assert_true(clients_ask(c, "2001:db8:0:2::1", START));
	clients_free(c);
}

static void many_clients_take_bounded_memory(void **state)
{
	struct clients *c = clients_new();

	for (int i = 0; i < 100000; i++) {
		char address[40];

		snprintf(address, sizeof(address), "192.%d.%d.%d", i >> 16, i >> 8 & 255, i & 255);
		assert_true(clients_ask(c, address, START + i));
	}
	clients_free(c);
}

static void wrong_tokens_are_counted_by_the_minute(void **state)
{
	struct clients *c = clients_new();

	for (int i = 0; i < CLIENT_WRONG_TOKENS; i++)
		assert_true(clients_wrong(c, "192.0.2.1", START));
	assert_false(clients_wrong(c, "192.0.2.1", START));
	assert_true(clients_wrong(c, "192.0.2.2", START));
	assert_true(clients_wrong(c, "192.0.2.1", START + 61 * NS_PER_S));
	clients_free(c);
}

static struct digest id_of(unsigned n)
{
	struct digest d;

	digest_bytes(&n, sizeof(n), &d);
	return d;
}

static struct sessions *one_session(const struct digest *id)
{
	struct sessions *s = sessions_new();

	sessions_add(s, &(struct session){ .id = *id, .user = "ada", .role = ROLE_OPERATOR },
		     START);
	return s;
}

static void an_unused_session_ends(void **state)
{
	const int64_t idle = SESSION_IDLE_S * NS_PER_S;
	struct digest id = id_of(1), other = id_of(2);
	struct sessions *s = one_session(&id);

	assert_null(sessions_find(s, &other, START));
	assert_string_equal(sessions_find(s, &id, START + idle - 1)->user, "ada");
	/* A look isn't a use. */
	assert_null(sessions_find(s, &id, START + idle));
	/* It is forgotten, even if a clock goes back. */
	assert_null(sessions_find(s, &id, START));
	sessions_free(s);
}

static void a_used_session_ends_with_its_time(void **state)
{
	const int64_t end = START + SESSION_S * NS_PER_S;
	struct digest id = id_of(1);
	struct sessions *s = one_session(&id);

	for (int64_t now = START; now < end; now += SESSION_IDLE_S * NS_PER_S / 2) {
		assert_non_null(sessions_find(s, &id, now));
		sessions_used(s, &id, now);
	}
	assert_non_null(sessions_find(s, &id, end - 1));
	assert_null(sessions_find(s, &id, end));
	sessions_free(s);
}

static void a_session_ends_when_it_is_removed(void **state)
{
	struct digest id = id_of(1);
	struct sessions *s = one_session(&id);

	sessions_remove(s, &id);
	sessions_remove(s, &id);
	sessions_used(s, &id, START);
	assert_null(sessions_find(s, &id, START));
	sessions_free(s);
}

static void the_longest_unused_session_makes_room(void **state)
{
	struct sessions *s = sessions_new();
	struct digest first = id_of(0), second = id_of(1);

	for (unsigned i = 0; i < SESSIONS_MAX; i++)
		sessions_add(s, &(struct session){ .id = id_of(i) }, START + i);
	assert_non_null(sessions_find(s, &first, START + SESSIONS_MAX));
	sessions_used(s, &first, START + SESSIONS_MAX);
	sessions_add(s, &(struct session){ .id = id_of(SESSIONS_MAX) }, START + SESSIONS_MAX);
	assert_non_null(sessions_find(s, &first, START + SESSIONS_MAX));
	assert_null(sessions_find(s, &second, START + SESSIONS_MAX));
	sessions_free(s);
}

static void a_ticket_is_read_as_it_was_written(void **state)
{
	struct ticket t = { .project = 3,
			    .content = { .size_bytes = 12345, .kind = CONTENT_TREE },
			    .proof = { .way = WAY_COOKIE },
			    .until_ns = clock_wall_ns() + NS_PER_S * 3600 },
		      got;
	_cleanup_(str_deinit) struct str text = { 0 }, late = { 0 };

	memset(t.content.digest.b, 7, DIGEST_BYTES);
	memset(t.proof.digest.b, 9, DIGEST_BYTES);
	ticket_write(&t, &text);
	assert_true(text.len <= TICKET_CHARS);
	assert_true(ticket_read(text.s, &got));
	assert_int_equal(got.project, 3);
	assert_true(content_id_eq(&got.content, &t.content));
	assert_int_equal(got.proof.way, WAY_COOKIE);
	assert_true(digest_eq(&got.proof.digest, &t.proof.digest));
	text.s[text.len - 1] = '\0';
	assert_false(ticket_read(text.s, &got));
	assert_false(ticket_read("", &got));
	t.until_ns = clock_wall_ns() - 1;
	ticket_write(&t, &late);
	assert_false(ticket_read(late.s, &got));
}

/* Any other text is none: the bits behind the last byte count, too. */
static void one_text_is_a_ticket(void **state)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

	for (uint32_t n = 0; n < 4; n++) {
		struct ticket t = { .project = n, .until_ns = clock_wall_ns() + NS_PER_S * 3600 },
			      got;
		_cleanup_(str_deinit) struct str text = { 0 };

		ticket_write(&t, &text);
		assert_true(ticket_read(text.s, &got));
		for (size_t i = 0; i < text.len; i++) {
			char was = text.s[i];

			for (const char *d = digits; *d; d++) {
				text.s[i] = *d;
				assert_int_equal(ticket_read(text.s, &got), *d == was);
			}
			text.s[i] = was;
		}
	}
}

static void a_type_comes_from_the_whole_suffix(void **state)
{
	static const struct {
		const char *name;
		bool page, attached;
	} cases[] = {
		{ "a.html", true, false },     { "a.HTM", true, false },
		{ "html", false, true },       { ".html", true, false },
		{ "a.html ", false, true },    { "a.html.gz", false, true },
		{ "a.xhtml", false, true },    { "a.svg", false, false },
		{ "a.tml", false, true },      { "a. ", false, true },
		{ "a.", false, true },         { "", false, true },
		{ "a.html htm", false, true }, { "a.mht", false, true },
		{ "a.xml", false, true },      { "a.svgz", false, true },
		{ "a.swf", false, true },      { "a.htc", false, true },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct view_type t = view_type_of(cases[i].name);

		assert_int_equal(strstr(t.policy, "allow-scripts") != NULL, cases[i].page);
		assert_int_equal(strstr(t.type, "text/html") != NULL, cases[i].page);
		assert_int_equal(t.attached, cases[i].attached);
		assert_null(strstr(t.policy, "allow-same-origin"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_client_has_a_burst_and_a_rate),
		cmocka_unit_test(a_network_of_ipv6_is_one_client),
		cmocka_unit_test(many_clients_take_bounded_memory),
		cmocka_unit_test(wrong_tokens_are_counted_by_the_minute),
		cmocka_unit_test(an_unused_session_ends),
		cmocka_unit_test(a_used_session_ends_with_its_time),
		cmocka_unit_test(a_session_ends_when_it_is_removed),
		cmocka_unit_test(the_longest_unused_session_makes_room),
		cmocka_unit_test(a_ticket_is_read_as_it_was_written),
		cmocka_unit_test(one_text_is_a_ticket),
		cmocka_unit_test(a_type_comes_from_the_whole_suffix),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
