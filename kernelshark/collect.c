// SPDX-License-Identifier: GPL-2.0
/*
 * KernelShark plugin: finds the idle periods of a trace, with the decision behind each and what
 * another idle state would have cost.
 *
 * KernelShark hands over the events of each CPU in the order of their recording. A period begins
 * and ends with power:cpu_idle. Where those events are missing, the decision begins it and the
 * outcome's residency gives its length. An outcome is judged by the cost model that the module's
 * shadow_stats uses, one period by itself (docs/tracing.md).
 */
#include <stdio.h>
#include <stdlib.h>

#include <event-parse.h>

#include "libkshark-tepdata.h"
#include "../governors/common/energy.h"
#include "idle.h"

#define IDLE_EXIT	0xffffffffu
#define ENTERED		0
#define NO_HINT		(-1)

/* A longer period counts as 18 minutes, as in the module. */
#define PERIOD_MAX_NS	((1LL << 40) - 1)

/**
 * struct idle_cpu - what is known of one CPU
 * @periods: its idle periods in the order of time
 * @count: how many
 * @room: how many fit
 * @machine: its state table, from the last config event; no states: unknown
 * @costs: cost model of @machine
 * @names: names of its states, with commas between; "" if unknown
 * @decision: the last decision; NULL: none, or it met its outcome
 * @seq: its number
 * @limit_ns: exit latency that it allowed
 * @disabled: states that it could not take
 * @period: number of the period that followed it plus 1; 0: none so far
 * @open: the last period has not ended
 */
struct idle_cpu {
	struct idle_period *periods;
	size_t count;
	size_t room;
	struct cil_machine machine;
	struct cil_cost costs[CIL_STATE_MAX];
	char names[CIL_STATE_MAX * 16];
	const struct kshark_entry *decision;
	uint64_t seq;
	int64_t limit_ns;
	uint32_t disabled;
	size_t period;
	bool open;
};

/* Of the events of the module. */
#define PREFIX "cil_"

enum idle_event { CPU_IDLE, DECISION, OUTCOME, CONFIG, EVENTS };

/* Fields, by event; the order is that of the enumerations below. */
enum { IDLE_STATE };
enum { DECISION_SEQ, DECISION_LIMIT, DECISION_HINT, DECISION_DISABLED };
enum { OUTCOME_SEQ, OUTCOME_RESIDENCY, OUTCOME_KIND, OUTCOME_INDEX };
enum { CONFIG_STATES, CONFIG_LATENCY, CONFIG_RESIDENCY, CONFIG_POWER, FIELDS };

static const struct {
	const char *system;
	const char *name;
	const char *fields[FIELDS];
} wanted[EVENTS] = {
	[CPU_IDLE] = { "power", "cpu_idle", { "state" } },
	[DECISION] = { "cpuidle_lab", "cil_decision",
		       { "seq", "latency_req_ns", "hint_ns", "disabled" } },
	[OUTCOME] = { "cpuidle_lab", "cil_outcome", { "seq", "residency_ns", "kind", "index" } },
	[CONFIG] = { "cpuidle_lab", "cil_config",
		     { "states", "exit_latency_ns", "target_residency_ns", "power_mw" } },
};

/**
 * struct idle_events - where the trace has what is wanted
 * @tep: the trace's formats
 * @id: number of each event; -1: the trace does not have it, or not as expected
 * @field: its fields
 */
struct idle_events {
	struct tep_handle *tep;
	int id[EVENTS];
	struct tep_format_field *field[EVENTS][FIELDS];
};

static void free_trace(struct idle_trace *trace)
{
	int i;

	for (i = 0; i < trace->cpu_count; i++)
		free(trace->cpus[i].periods);
	free(trace->cpus);
	free(trace->events);
	free(trace);
}

KS_DEFINE_PLUGIN_CONTEXT(struct idle_trace, free_trace);

/**
 * idle_trace_of() - the idle periods of a stream
 * @stream: its number
 *
 * Return: NULL if the plugin is not in use there.
 */
struct idle_trace *idle_trace_of(int stream)
{
	return __get_context(stream);
}

/**
 * idle_periods() - the idle periods of a CPU, in the order of time
 * @trace: the trace
 * @cpu: number of the CPU
 * @count: filled with their number, 0 if there is no such CPU
 */
const struct idle_period *idle_periods(const struct idle_trace *trace, int cpu, size_t *count)
{
	*count = 0;
	if (cpu < 0 || cpu >= trace->cpu_count)
		return NULL;
	*count = trace->cpus[cpu].count;
	return trace->cpus[cpu].periods;
}

/**
 * idle_deepest() - number of the deepest state that the trace names
 * @trace: the trace
 */
int idle_deepest(const struct idle_trace *trace)
{
	return trace->deepest;
}

/**
 * idle_state_name() - the name of an idle state
 * @trace: the trace
 * @cpu: number of a CPU that idle_periods() knows
 * @state: number of the state
 * @name: filled with the name, or with its number where the trace does not tell
 * @size: room in @name
 */
void idle_state_name(const struct idle_trace *trace, int cpu, int state, char *name, size_t size)
{
	const char *at = trace->cpus[cpu].names;
	int k;

	for (k = 0; k < state && at; k++) {
		at = strchr(at, ',');
		at = at ? at + 1 : NULL;
	}
	if (at && *at)
		snprintf(name, size, "%.*s", (int)strcspn(at, ","), at);
	else
		snprintf(name, size, "state %d", state);
}

/* Meaning of a number, as the trace itself says; "" if it does not. */
static const char *symbol_of(const struct tep_event *event, const char *field, int64_t value)
{
	const struct tep_print_arg *arg;
	const struct tep_print_flag_sym *symbol;

	for (arg = event->print_fmt.args; arg; arg = arg->next) {
		if (arg->type != TEP_PRINT_SYMBOL || !arg->symbol.field ||
		    arg->symbol.field->type != TEP_PRINT_FIELD ||
		    strcmp(arg->symbol.field->field.name, field))
			continue;
		for (symbol = arg->symbol.symbols; symbol; symbol = symbol->next)
			if (strtoll(symbol->value, NULL, 0) == value)
				return symbol->str;
	}
	return "";
}

/**
 * idle_decision_read() - read what a decision says to people
 * @trace: the trace
 * @entry: the decision
 * @decision: filled
 *
 * Return: false if it cannot be read.
 */
bool idle_decision_read(const struct idle_trace *trace, const struct kshark_entry *entry,
			struct idle_decision *decision)
{
	struct tep_event *event = tep_find_event(trace->events->tep, trace->events->id[DECISION]);
	int64_t governor, reason;

	if (!event || kshark_read_event_field_int(entry, "governor", &governor) ||
	    kshark_read_event_field_int(entry, "reason", &reason) ||
	    kshark_read_event_field_int(entry, "sleep_length_ns", &decision->sleep_length_ns))
		return false;
	decision->governor = symbol_of(event, "governor", governor);
	decision->reason = symbol_of(event, "reason", reason);
	return true;
}

/* Read an element of a field; false if the record is too short for it. */
static bool read_element(const struct idle_events *events, const struct tep_record *record,
			 enum idle_event event, int number, int element, int64_t *value)
{
	const struct tep_format_field *field = events->field[event][number];
	bool is_array = field->flags & TEP_FIELD_IS_ARRAY;
	int size = is_array ? (int)field->elementsize : field->size;
	int at = field->offset + element * size;

	if (size <= 0 || size > 8 || at < 0 || at + size > (int)record->size ||
	    (element && (element + 1) * size > field->size))
		return false;
	*value = tep_read_number(events->tep, (const char *)record->data + at, size);
	return true;
}

static bool read_field(const struct idle_events *events, const struct tep_record *record,
		       enum idle_event event, int number, int64_t *value)
{
	return read_element(events, record, event, number, 0, value);
}

static struct idle_cpu *cpu_of(struct idle_trace *trace, const struct kshark_entry *entry)
{
	if (!trace || entry->cpu < 0 || entry->cpu >= trace->cpu_count)
		return NULL;
	return &trace->cpus[entry->cpu];
}

static struct idle_period *add_period(struct idle_trace *trace, struct idle_cpu *cpu)
{
	struct idle_period *period;

	if (cpu->count == cpu->room) {
		size_t room = cpu->room ? 2 * cpu->room : 256;
		struct idle_period *grown = realloc(cpu->periods, room * sizeof(*grown));

		if (!grown) {
			trace->out_of_memory = true;
			return NULL;
		}
		cpu->periods = grown;
		cpu->room = room;
	}
	period = &cpu->periods[cpu->count++];
	memset(period, 0, sizeof(*period));
	return period;
}

static uint8_t note_state(struct idle_trace *trace, int64_t state)
{
	if (state < 0 || state >= IDLE_STATES)
		state = IDLE_STATES - 1;
	if (state > trace->deepest)
		trace->deepest = state;
	return state;
}

static void on_cpu_idle(struct kshark_data_stream *stream, void *data, struct kshark_entry *entry)
{
	struct idle_trace *trace = idle_trace_of(stream->stream_id);
	struct idle_cpu *cpu = cpu_of(trace, entry);
	struct idle_period *period;
	int64_t state;

	if (!cpu || !read_field(trace->events, data, CPU_IDLE, IDLE_STATE, &state))
		return;
	if (cpu->open) {
		/* An end that was lost leaves a period of unknown length: forget it. */
		if ((uint32_t)state == IDLE_EXIT)
			cpu->periods[cpu->count - 1].end_ns = entry->ts;
		else
			cpu->count--;
		cpu->open = false;
	}
	if ((uint32_t)state == IDLE_EXIT)
		return;
	period = add_period(trace, cpu);
	if (!period)
		return;
	period->start_ns = entry->ts;
	period->end_ns = entry->ts;
	period->entry = entry;
	period->decision = cpu->period ? NULL : cpu->decision;
	period->state = note_state(trace, state);
	if (period->decision)
		cpu->period = cpu->count;
	cpu->open = true;
}

static void on_decision(struct kshark_data_stream *stream, void *data, struct kshark_entry *entry)
{
	struct idle_trace *trace = idle_trace_of(stream->stream_id);
	struct idle_cpu *cpu = cpu_of(trace, entry);
	int64_t seq, limit_ns, hint_ns, disabled;

	if (!cpu || !read_field(trace->events, data, DECISION, DECISION_SEQ, &seq) ||
	    !read_field(trace->events, data, DECISION, DECISION_LIMIT, &limit_ns) ||
	    !read_field(trace->events, data, DECISION, DECISION_HINT, &hint_ns) ||
	    !read_field(trace->events, data, DECISION, DECISION_DISABLED, &disabled))
		return;
	cpu->decision = entry;
	cpu->seq = seq;
	cpu->limit_ns = hint_ns != NO_HINT && hint_ns < limit_ns ? hint_ns : limit_ns;
	cpu->disabled = disabled;
	cpu->period = 0;
}

/* The states that a decision allowed; the same as the module's shadows have. */
static uint32_t allowed_states(const struct idle_cpu *cpu)
{
	uint32_t allowed = 0, first = 0;
	uint32_t k;

	for (k = cpu->machine.state_count; k-- > 0;) {
		if (cpu->disabled & 1u << k)
			continue;
		first = 1u << k;
		if (cpu->machine.states[k].exit_latency_ns <= cpu->limit_ns)
			allowed |= first;
	}
	if (allowed)
		return allowed;
	return first ? first : 1;
}

static uint64_t cost_of(const struct cil_cost *cost, int64_t residency_ns)
{
	return cost->entry + cost->power * (uint64_t)residency_ns;
}

static void judge(const struct idle_cpu *cpu, struct idle_period *period, uint32_t state)
{
	uint32_t allowed = allowed_states(cpu);
	int64_t length_ns = period->residency_ns;
	uint64_t least = UINT64_MAX, cost;
	double loss;
	uint32_t k;

	if (state >= cpu->machine.state_count)
		return;
	if (length_ns > PERIOD_MAX_NS)
		length_ns = PERIOD_MAX_NS;
	for (k = 0; k < cpu->machine.state_count; k++) {
		cost = cost_of(&cpu->costs[k], length_ns);
		if (allowed & 1u << k && cost < least) {
			least = cost;
			period->best = k;
		}
	}
	cost = cost_of(&cpu->costs[state], length_ns);
	loss = least && cost > least ? 1000.0 * (cost - least) / least : 0;
	period->loss = loss < 1e9 ? loss : 1e9;
	if (period->loss <= IDLE_LOSS_SHOWN)
		period->verdict = IDLE_RIGHT;
	else
		period->verdict = state > period->best ? IDLE_ABOVE : IDLE_BELOW;
}

static void on_outcome(struct kshark_data_stream *stream, void *data, struct kshark_entry *entry)
{
	struct idle_trace *trace = idle_trace_of(stream->stream_id);
	struct idle_cpu *cpu = cpu_of(trace, entry);
	int64_t seq, residency_ns, kind, state;
	struct idle_period *period = NULL;

	if (!cpu || !read_field(trace->events, data, OUTCOME, OUTCOME_SEQ, &seq) ||
	    !read_field(trace->events, data, OUTCOME, OUTCOME_RESIDENCY, &residency_ns) ||
	    !read_field(trace->events, data, OUTCOME, OUTCOME_KIND, &kind) ||
	    !read_field(trace->events, data, OUTCOME, OUTCOME_INDEX, &state))
		return;
	if (!cpu->decision || (uint64_t)seq != cpu->seq)
		return;
	if (kind == ENTERED && residency_ns >= 0) {
		if (cpu->period) {
			period = &cpu->periods[cpu->period - 1];
		} else {
			period = add_period(trace, cpu);
			if (period) {
				period->start_ns = cpu->decision->ts;
				period->end_ns = period->start_ns + residency_ns;
				/* The residency ends before the next decision is due. */
				if (period->end_ns < period->start_ns || period->end_ns > entry->ts)
					period->end_ns = entry->ts;
				period->entry = cpu->decision;
				period->decision = cpu->decision;
				period->state = note_state(trace, state);
			}
		}
	}
	if (period) {
		period->residency_ns = residency_ns;
		judge(cpu, period, state);
	}
	cpu->decision = NULL;
	cpu->period = 0;
}

static void read_names(const struct idle_events *events, struct tep_record *record,
		       struct idle_cpu *cpu)
{
	struct tep_event *event = tep_find_event(events->tep, events->id[CONFIG]);
	int size = 0;
	const char *text = tep_get_field_raw(NULL, event, "names", record, &size, 0);
	const char *end = (const char *)record->data + record->size;

	cpu->names[0] = '\0';
	if (text && text >= (const char *)record->data && text < end && size <= end - text)
		snprintf(cpu->names, sizeof(cpu->names), "%.*s", size, text);
}

static void on_config(struct kshark_data_stream *stream, void *data, struct kshark_entry *entry)
{
	struct idle_trace *trace = idle_trace_of(stream->stream_id);
	struct idle_cpu *cpu = cpu_of(trace, entry);
	struct cil_machine machine = { 0 };
	int64_t states, value;
	uint32_t k;

	if (!cpu || !read_field(trace->events, data, CONFIG, CONFIG_STATES, &states) ||
	    states < 1 || states > CIL_STATE_MAX)
		return;
	machine.state_count = states;
	for (k = 0; k < machine.state_count; k++) {
		struct cil_state *state = &machine.states[k];

		if (!read_element(trace->events, data, CONFIG, CONFIG_LATENCY, k, &value))
			return;
		state->exit_latency_ns = value;
		if (!read_element(trace->events, data, CONFIG, CONFIG_RESIDENCY, k, &value))
			return;
		state->target_residency_ns = value;
		if (!read_element(trace->events, data, CONFIG, CONFIG_POWER, k, &value))
			return;
		state->power_uw = 1000 * (value < UINT32_MAX / 1000 ? value : UINT32_MAX / 1000);
	}
	read_names(trace->events, data, cpu);
	cpu->machine = machine;
	cil_energy_init(cpu->costs, &machine);
	note_state(trace, states - 1);
}

static const kshark_plugin_event_handler_func handlers[EVENTS] = {
	[CPU_IDLE] = on_cpu_idle,
	[DECISION] = on_decision,
	[OUTCOME] = on_outcome,
	[CONFIG] = on_config,
};

/* Find an event and its fields; -1 where one is missing. */
static int find_event(struct idle_events *events, enum idle_event number)
{
	const char *system = wanted[number].system, *name = wanted[number].name;
	struct tep_event *event = tep_find_event_by_name(events->tep, system, name);
	int i;

	/* Events of the module had no prefix once. */
	if (!event && !strncmp(name, PREFIX, strlen(PREFIX)))
		event = tep_find_event_by_name(events->tep, system, name + strlen(PREFIX));
	if (!event)
		return -1;
	for (i = 0; i < FIELDS && wanted[number].fields[i]; i++) {
		events->field[number][i] = tep_find_field(event, wanted[number].fields[i]);
		if (!events->field[number][i])
			return -1;
	}
	return event->id;
}

static struct idle_trace *prepare(struct kshark_data_stream *stream)
{
	struct idle_trace *trace = __init(stream->stream_id);
	int i;

	if (!trace)
		return NULL;
	trace->events = calloc(1, sizeof(*trace->events));
	trace->cpus = calloc(stream->n_cpus > 0 ? stream->n_cpus : 1, sizeof(*trace->cpus));
	if (!trace->events || !trace->cpus) {
		__close(stream->stream_id);
		return NULL;
	}
	trace->cpu_count = stream->n_cpus;
	trace->events->tep = kshark_get_tep(stream);
	for (i = 0; i < EVENTS; i++)
		trace->events->id[i] = find_event(trace->events, i);
	return trace;
}

/* KernelShark calls these by name; all else is hidden. */
#define EXPORTED __attribute__((visibility("default")))

EXPORTED int KSHARK_PLOT_PLUGIN_INITIALIZER(struct kshark_data_stream *stream);
EXPORTED int KSHARK_PLOT_PLUGIN_DEINITIALIZER(struct kshark_data_stream *stream);
EXPORTED void *KSHARK_MENU_PLUGIN_INITIALIZER(void *window);

/**
 * kshark_data_plugin_initializer() - begin with a trace
 * @stream: the trace
 *
 * Return: 0 if the trace has neither our events nor power:cpu_idle: then KernelShark shows the
 * plugin as failed for this trace, and nothing is drawn. Else 1.
 */
int KSHARK_PLOT_PLUGIN_INITIALIZER(struct kshark_data_stream *stream)
{
	struct idle_trace *trace;
	int i, found = 0;

	if (!kshark_is_tep(stream))
		return 0;
	trace = prepare(stream);
	if (!trace)
		return 0;
	for (i = 0; i < EVENTS; i++) {
		if (trace->events->id[i] < 0)
			continue;
		kshark_register_event_handler(stream, trace->events->id[i], handlers[i]);
		found = 1;
	}
	if (!found) {
		__close(stream->stream_id);
		return 0;
	}
	kshark_register_draw_handler(stream, idle_draw);
	return 1;
}

/**
 * kshark_data_plugin_deinitializer() - end with a trace
 * @stream: the trace
 *
 * Return: 1.
 */
int KSHARK_PLOT_PLUGIN_DEINITIALIZER(struct kshark_data_stream *stream)
{
	struct idle_trace *trace = idle_trace_of(stream->stream_id);
	int i;

	if (!trace)
		return 0;
	for (i = 0; i < EVENTS; i++)
		if (trace->events->id[i] >= 0)
			kshark_unregister_event_handler(stream, trace->events->id[i], handlers[i]);
	kshark_unregister_draw_handler(stream, idle_draw);
	idle_forget();
	__close(stream->stream_id);
	return 1;
}

/**
 * kshark_plugin_menu_initializer() - learn of the main window; adds no menu
 * @window: KernelShark's main window
 *
 * Return: NULL.
 */
void *KSHARK_MENU_PLUGIN_INITIALIZER(void *window)
{
	return idle_set_window(window);
}
