/* SPDX-License-Identifier: BSD-2-Clause */
/* Event queues that are raised after the locks have been dropped. */
#include <string.h>

#include "engine/engine.h"
#include "engine/wake.h"

void effects_apply(struct effects *effects)
{
	unsigned i;

	for (i = 0; i < effects->count; i++) {
		event_fd_raise(effects->wake[i]->fd);
		event_queue_put(effects->wake[i]);
	}
	effects->count = 0;
}

/* Each queue once; those for which there is no room are raised at once. */
static bool defer_one(struct engine *engine, struct event_queue *queue)
{
	unsigned i;

	for (i = engine->deferred.count; i; i--)
		if (engine->deferred.entry[i - 1].queue == queue) {
			engine->deferred.entry[i - 1].times++;
			event_queue_put(queue);	/* the first one's reference will do */
			return true;
		}
	if (engine->deferred.count == ENGINE_DEFERRED_MAX)
		return false;
	engine->deferred.entry[engine->deferred.count++] = (struct deferred){ queue, 1 };
	return true;
}

void effects_defer(void *owner, struct effects *effects)
{
	struct engine *engine = owner;
	unsigned i, kept = 0;

	for (i = 0; i < effects->count; i++)
		if (!defer_one(engine, effects->wake[i]))
			effects->wake[kept++] = effects->wake[i];
	effects->count = kept;
	effects_apply(effects);
}

void progress_unlock(struct engine *engine)
{
	struct deferred deferred[ENGINE_DEFERRED_MAX];
	unsigned count = engine->deferred.count, i;

	memcpy(deferred, engine->deferred.entry, count * sizeof(deferred[0]));
	engine->deferred.count = 0;
	lock_release(&engine->progress);
	for (i = 0; i < count; i++) {
		while (deferred[i].times--)
			event_fd_raise(deferred[i].queue->fd);
		event_queue_put(deferred[i].queue);
	}
	engine_after_unlock(engine);
}
