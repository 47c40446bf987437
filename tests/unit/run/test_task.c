/* Phases: whatever tasks are moved, each is on one list, in the order in which they came; and the
 * check of it sees what is wrong. */
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include "unit.h"

#include "run/internal.h"

#define N     30
#define MOVES 4000

static const enum task_phase phases[] = { PHASE_PLANNED, PHASE_READY, PHASE_PARKED, PHASE_ELSEWHERE,
					  PHASE_BACKING_OFF };

struct world {
	struct run run;
	struct plan_task plan[N];
};

static int setup(void **state)
{
	struct world *w = xcalloc(1, sizeof(*w));

	w->run.arena = arena_new();
	w->run.tasks.groups = map_new();
	for (size_t i = 0; i < PHASES; i++)
		w->run.tasks.in[i].phase = i;
	for (size_t i = 0; i < N; i++) {
		w->plan[i].state = TASK_TAKEN;
		assert_ptr_equal(task_of(&w->run, &w->plan[i]), task_of(&w->run, &w->plan[i]));
	}
	assert_int_equal(w->run.tasks.n, N);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	map_free(w->run.tasks.groups);
	arena_free(w->run.arena);
	free(w);
	return 0;
}

/* The naive list: tasks by the phase and by when they came, those at the front with a negative
 * time. */
static void test_random_moves(void **state)
{
	struct world *w = *state;
	uint64_t dice = 7;
	struct {
		enum task_phase phase;
		int when;
	} want[N];

	for (int i = 0; i < N; i++) {
		want[i].phase = PHASE_PLANNED;
		want[i].when = i - N;
	}
	for (int now = 1; now <= MOVES; now++) {
		enum task_phase to;
		size_t i;

		dice = dice * 6364136223846793005ULL + 1442695040888963407ULL;
		i = (dice >> 33) % N;
		to = phases[(dice >> 43) % ARRAY_LEN(phases)];
		want[i].phase = to;
		want[i].when = dice >> 63 ? now : -N - now;
		if (dice >> 63)
			task_set_phase(w->plan[i].task, to);
		else
			task_move_to_front(w->plan[i].task, &w->run.tasks.in[to]);
		task_check_all(&w->run);
		for (size_t p = 0; p < PHASES; p++) {
			const struct task_list *l = &w->run.tasks.in[p];
			size_t n = 0, expected = 0;

			for (const struct task *t = l->first; t; t = t->after, n++) {
				assert_int_equal(want[t->plan - w->plan].phase, p);
				if (t->after)
					assert_true(want[t->plan - w->plan].when <
						    want[t->after->plan - w->plan].when);
			}
			for (size_t k = 0; k < N; k++)
				expected += want[k].phase == p;
			assert_int_equal(n, expected);
			assert_int_equal(l->n, expected);
		}
	}
}

static void break_phase(struct world *w)
{
	w->plan[3].state = TASK_STATE_DONE; /* it has ended in the plan, and waits here */
}

static void break_link(struct world *w)
{
	w->plan[3].task->on = &w->run.tasks.in[PHASE_PARKED];
}

static void break_count(struct world *w)
{
	w->run.tasks.n++; /* one that is on no list */
}

static void break_attempt(struct world *w)
{
	task_set_phase(w->plan[3].task, PHASE_RUNNING);
}

/* Does the check end a process in which this was done? */
static bool dies(struct world *w, void (*damage)(struct world *w))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		const struct rlimit none = { 0, 0 };

		setrlimit(RLIMIT_CORE, &none);
		signal(SIGABRT, SIG_DFL);
		close(STDERR_FILENO);
		if (damage)
			damage(w);
		task_check_all(&w->run);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void test_check(void **state)
{
	struct world *w = *state;

	for (size_t i = 0; i < N; i++)
		task_set_phase(w->plan[i].task, PHASE_READY);
	task_wait_behind(w->plan[5].task, w->plan[4].task);
	assert_int_equal(task_phase(w->plan[5].task), PHASE_BEHIND);
	assert_false(dies(w, NULL));
	assert_true(dies(w, break_phase));
	assert_true(dies(w, break_link));
	assert_true(dies(w, break_count));
	assert_true(dies(w, break_attempt));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_random_moves, setup, teardown),
		cmocka_unit_test_setup_teardown(test_check, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
