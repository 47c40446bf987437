#include "plan/internal.h"

void queue_push(struct task_queue *q, struct plan_task *t)
{
	if (q->n == q->cap) {
		size_t cap = q->cap ? q->cap * 2 : 64;
		struct plan_task **v = xreallocarray(NULL, cap, sizeof(*v));

		for (size_t i = 0; i < q->n; i++)
			v[i] = q->v[(q->head + i) % q->cap];
		free(q->v);
		q->v = v;
		q->head = 0;
		q->cap = cap;
	}
	q->v[(q->head + q->n++) % q->cap] = t;
}

struct plan_task *queue_pop(struct task_queue *q)
{
	struct plan_task *t;

	if (q->n == 0)
		return NULL;
	t = q->v[q->head];
	q->head = (q->head + 1) % q->cap;
	q->n--;
	return t;
}
