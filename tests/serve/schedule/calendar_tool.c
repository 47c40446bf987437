/* The nominal times of rules, for cron_vectors.py: each line of standard input is ZONE, DST, FROM,
 * TO (Unix seconds), MAX and RULE between tabs; the answer is a line of Unix seconds in (FROM, TO],
 * at most MAX, or `error: …`. */
#include <stdio.h>
#include <string.h>
#include "serve/schedule/calendar.h"

static void answer(struct zone_set *zones, char *line)
{
	char *field[6] = { line };
	struct schedule_decl d = { .name = "vector" };
	struct err err = { 0 };
	struct calendar c;
	int64_t from, to, t;

	for (int i = 1; i < 6 && field[i - 1]; i++) {
		field[i] = strchr(field[i - 1], '\t');
		if (field[i])
			*field[i]++ = '\0';
	}
	if (!field[5]) {
		printf("error: six fields are needed\n");
		return;
	}
	d.timezone = field[0];
	d.dst = field[1];
	d.cron = field[5];
	from = strtoll(field[2], NULL, 10);
	to = strtoll(field[3], NULL, 10);
	if (calendar_of(&d, zones, &c, &err) < 0) {
		printf("error: %s\n", err.msg);
		return;
	}
	t = calendar_next(&c, from * NS_PER_S);
	for (long n = strtol(field[4], NULL, 10); n > 0 && t <= to * NS_PER_S;
	     n--, t = calendar_next(&c, t))
		printf("%lld ", (long long)(t / NS_PER_S));
	printf("\n");
}

int main(void)
{
	struct zone_set *zones = zone_set_new(NULL);
	char line[1024];

	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		answer(zones, line);
		fflush(stdout);
	}
	zone_set_free(zones);
	return 0;
}
