// SPDX-License-Identifier: GPL-2.0
/*
 * Loads a plugin into libkshark, has it draw a whole trace piece by piece, and prints what it drew:
 * a line "cpu colour mark text" for each bar, the text being that of a double click.
 *
 *	kernelshark-host PLUGIN TRACE NANOSECONDS_PER_PIXEL
 *
 * There is no window: this program takes the place of the drawing functions.
 */
#include <cstdio>
#include <cstdlib>
#include <string>

#include "KsPlugins.hpp"

namespace {

constexpr int pixels = 1000, margin = 100;
std::string printed;

} // namespace

/* In place of libkshark-plot's, which need OpenGL. */
extern "C" {
char *ksplot_find_font_file(const char *, const char *)
{
	return strdup("none");
}

bool ksplot_init_font(ksplot_font *font, float, const char *)
{
	font->texture_id = 1;
	return true;
}

void ksplot_print_text(const ksplot_font *, const ksplot_color *, float, float, const char *text)
{
	printed = text;
}

void ksplot_draw_polygon(const ksplot_point *, size_t, const ksplot_color *, float)
{
}
}

namespace {

[[noreturn]] void fail(const char *what)
{
	fprintf(stderr, "kernelshark-host: %s\n", what);
	exit(1);
}

class Scene {
public:
	KsPlot::PlotObjList shapes;

	Scene(kshark_data_stream *stream, kshark_trace_histo *histo, KsPlot::Graph *graph, int cpu)
	{
		KsCppArgV argv = { histo, graph, &shapes };

		for (kshark_draw_handler *h = stream->draw_handlers; h; h = h->next)
			h->draw_func(argv.toC(), stream->stream_id, cpu, KSHARK_CPU_DRAW);
	}

	~Scene()
	{
		for (KsPlot::PlotObject *shape : shapes)
			delete shape;
	}
};

const char *mark_of(const KsPlot::Color &colour)
{
	if (colour.r() == 220 && colour.g() == 30 && colour.b() == 30)
		return "deep";
	return colour.r() == 20 && colour.g() == 60 && colour.b() == 230 ? "shallow" : nullptr;
}

void print_bars(kshark_data_stream *stream, kshark_trace_histo *histo, KsPlot::Graph *graph,
		int cpu)
{
	Scene scene(stream, histo, graph, cpu);
	std::vector<std::string> lines;	/* The last is drawn first. */

	for (auto at = scene.shapes.begin(); at != scene.shapes.end(); ++at) {
		auto *bar = dynamic_cast<KsPlot::Rectangle *>(*at);
		if (!bar || mark_of(bar->_color))
			continue;
		int bin = bar->pointX(0) - graph->bin(0)._base.x();
		if (bin < margin || bin >= pixels - margin)
			continue;
		auto next = std::next(at);
		const char *mark = next == scene.shapes.end() ? nullptr : mark_of((*next)->_color);

		/* The first click shows the text, the second takes it away. */
		bar->doubleClick();
		printed = "";
		for (KsPlot::PlotObject *shape : Scene(stream, histo, graph, cpu).shapes)
			if (dynamic_cast<KsPlot::TextBox *>(shape))
				shape->draw();
		bar->doubleClick();
		if (bar->distance(bar->pointX(0), bar->pointY(0)) != 0)
			fail("a bar is not where it is drawn");
		char head[64];
		snprintf(head, sizeof(head), "%d\t%02x%02x%02x\t%s\t", cpu, bar->_color.r(),
			 bar->_color.g(), bar->_color.b(), mark ? mark : "-");
		lines.push_back(head + printed);
	}
	for (auto line = lines.rbegin(); line != lines.rend(); ++line)
		puts(line->c_str());
}

} // namespace

int main(int argc, char **argv)
{
	kshark_context *context = nullptr;
	kshark_entry **entries = nullptr;

	if (argc != 4 || !kshark_instance(&context))
		fail("usage: kernelshark-host PLUGIN TRACE NANOSECONDS_PER_PIXEL");
	kshark_plugin_list *plugin = kshark_register_plugin(context, "ours", argv[1]);
	if (!plugin || !plugin->process_interface)
		fail("the plugin cannot be loaded");
	int sd = kshark_open(context, argv[2]);
	if (sd < 0)
		fail("the trace cannot be opened");
	kshark_data_stream *stream = kshark_get_data_stream(context, sd);
	kshark_register_plugin_to_stream(stream, plugin->process_interface, true);
	printf("loaded %d\n", kshark_handle_all_dpis(stream, KSHARK_PLUGIN_INIT));
	ssize_t count = kshark_load_entries(context, sd, &entries);
	if (count <= 0)
		fail("the trace has no entries");

	int64_t pixel_ns = atoll(argv[3]), step_ns = pixel_ns * (pixels - 2 * margin);
	for (int cpu = 0; cpu < stream->n_cpus; cpu++) {
		for (int64_t ts = entries[0]->ts; ts <= entries[count - 1]->ts; ts += step_ns) {
			kshark_trace_histo histo;
			KsPlot::ColorTable none;

			ksmodel_init(&histo);
			ksmodel_set_bining(&histo, pixels, ts - margin * pixel_ns,
					   ts + (pixels - margin) * pixel_ns - 1);
			if (histo.bin_size != pixel_ns)
				fail("libkshark chose another scale");
			KsPlot::Graph graph(&histo, &none, &none);
			graph.setBase(100);
			graph.setHeight(30);
			print_bars(stream, &histo, &graph, cpu);
			ksmodel_clear(&histo);
		}
	}
	kshark_handle_all_dpis(stream, KSHARK_PLUGIN_CLOSE);
	for (ssize_t i = 0; i < count; i++)
		free(entries[i]);
	free(entries);
	kshark_close(context, sd);
	kshark_free(context);
	return 0;
}
