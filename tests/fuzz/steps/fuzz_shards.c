/* Archives from bytes. Whatever samples come out are well-formed, within the limits, and when
 * written again read back the same. The first byte: bit 0 members of any archive, zip too, instead
 * of the samples of a tar. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "steps/shards/members.h"
#include "steps/shards/shards.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SAMPLES_MAX 64 /* that are written again */

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "fuzz_shards: %s\n", what);
	abort();
}

static void read_members(const char *path)
{
	const struct member_limits limits = { .member_max = MIB,
					      .total_max = 4 * MIB,
					      .ratio_max = 1000,
					      .ratio_from = MIB,
					      .zip = true };
	struct member_reader *r;
	struct err err = { 0 };
	uint64_t total = 0;
	const char *name;
	uint64_t offset;
	int n;

	if (member_reader_open(path, &limits, &r, &err) < 0) {
		must(err.code != ERR_NONE, "an error without a reason");
		return;
	}
	while ((n = member_reader_next(r, &name, &offset, &err)) != 0) {
		struct str data = { 0 };

		if (n < 0 && !member_reader_can_go_on(r))
			break;
		if (n > 0 && member_reader_data(r, &data, &err) < 0)
			n = -1;
		total += data.len;
		must(n < 0 || (data.len <= limits.member_max && total <= limits.total_max),
		     "more than the limits allow");
		str_deinit(&data);
	}
	member_reader_free(r);
}

static void check_sample(const struct shard_sample *s)
{
	must(s->n_fields > 0 && s->n_fields <= SHARD_FIELDS_MAX && *s->key, "an empty sample");
	for (size_t i = 0; i < s->n_fields; i++) {
		_cleanup_(freep) char *name = xasprintf("%s.%s", s->key, s->fields[i].name);
		size_t key_len;

		must(shard_name_split(name, &key_len, NULL) == 0 && key_len == strlen(s->key),
		     "a name that isn't safe");
		must(shard_sample_field(s, s->fields[i].name) == &s->fields[i], "a field twice");
	}
}

static void check_same(const struct shard_sample *a, const struct shard_sample *b)
{
	must(strcmp(a->key, b->key) == 0 && a->n_fields == b->n_fields,
	     "another sample was read back");
	for (size_t i = 0; i < a->n_fields; i++)
		must(strcmp(a->fields[i].name, b->fields[i].name) == 0 &&
			     a->fields[i].n == b->fields[i].n &&
			     memcmp(a->fields[i].data, b->fields[i].data, a->fields[i].n) == 0,
		     "other bytes were read back");
}

static void write_again(struct shard_sample **v, size_t n)
{
	char path[64];
	struct shard_writer *w;
	struct shard_reader *r;
	struct shard_sample *s;

	snprintf(path, sizeof(path), "/tmp/cairn-fuzz-shards-%d.tar", (int)getpid());
	must(shard_writer_open(path, NULL, &w, NULL) == 0, "no writer");
	for (size_t i = 0; i < n; i++)
		must(shard_writer_add(w, v[i]->key, v[i]->fields, v[i]->n_fields, NULL, NULL) == 0,
		     "what was read can't be written");
	must(shard_writer_close(w, NULL, NULL) == 0 && shard_reader_open(path, &r, NULL) == 0,
	     "no shard");
	for (size_t i = 0; i < n; i++) {
		if (i && strcmp(v[i]->key, v[i - 1]->key) == 0)
			break; /* would be one sample now */
		must(shard_reader_next(r, &s, NULL) == 1, "a sample is missing");
		check_same(v[i], s);
		shard_sample_free(s);
	}
	shard_reader_free(r);
	unlink(path);
}

static bool neighbours(struct shard_sample **v, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if (strcmp(v[i]->key, v[i - 1]->key) == 0)
			return true;
	return false;
}

static void read_samples(const char *path)
{
	struct shard_sample *v[SAMPLES_MAX], *s;
	struct shard_reader *r;
	size_t n = 0;

	if (shard_reader_open(path, &r, NULL) < 0)
		return;
	while (shard_reader_next(r, &s, NULL) == 1) {
		check_sample(s);
		if (n < SAMPLES_MAX)
			v[n++] = s;
		else
			shard_sample_free(s);
	}
	shard_reader_free(r);
	must(!neighbours(v, n), "one key's members were two samples");
	write_again(v, n);
	for (size_t i = 0; i < n; i++)
		shard_sample_free(v[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(fd_closep) int fd = memfd_create("fuzz", MFD_CLOEXEC);
	char path[32];

	if (size < 1 || size > MIB || fd < 0 || fs_write_all(fd, data + 1, size - 1, NULL) < 0)
		return 0;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (data[0] & 1)
		read_members(path);
	else
		read_samples(path);
	return 0;
}
