package io.nereus.bench;

import java.awt.BasicStroke;
import java.awt.Color;
import java.awt.Font;
import java.awt.Graphics2D;
import java.util.List;
import java.util.function.ToDoubleFunction;

/** Appends per second over topic counts: a flat line is linear cost, a line that falls is worse. */
final class CurvePlot {

    private final Graphics2D canvas;
    private final List<Scoreboard.Result> points;
    private final int left;
    private final int top;
    private final int width;
    private final int height;
    private final double most;

    private CurvePlot(Graphics2D canvas, List<Scoreboard.Result> points, int left, int top, int width, int height) {
        this.canvas = canvas;
        this.points = points;
        this.left = left + 70;
        this.top = top + 40;
        this.width = width - 220;
        this.height = height - 80;
        most = points.stream().mapToDouble(point -> Math.max(point.nereus(), point.stock())).max().orElse(1) * 1.1;
    }

    static void draw(Graphics2D canvas, List<Scoreboard.Result> points, int left, int top, int width, int height) {
        new CurvePlot(canvas, points, left, top, width, height).draw();
    }

    private void draw() {
        Plot.text(canvas, "Managed ledger: appends per second, 512 outstanding, over more and more topics", left - 70, top - 16,
            Font.BOLD, 17, Plot.INK);
        double step = step();
        for (double at = 0; at <= most; at += step) {
            canvas.setColor(Plot.FAINT);
            canvas.setStroke(new BasicStroke(1f));
            canvas.drawLine(left, y(at), left + width, y(at));
            Plot.text(canvas, at == 0 ? "0" : Plot.amount(at), left - 56, y(at) + 5, Font.PLAIN, 13, Plot.MUTED);
        }
        for (int i = 0; i < points.size(); i++) {
            String label = String.format("%,d", points.get(i).metric().curveTopics());
            Plot.text(canvas, label, x(i) - 4 * label.length(), top + height + 24, Font.PLAIN, 14, Plot.MUTED);
        }
        Plot.text(canvas, "topics", left + width + 30, top + height + 24, Font.PLAIN, 14, Plot.MUTED);
        line(Scoreboard.Result::stock, Plot.STOCK, "stock");
        line(Scoreboard.Result::nereus, Plot.NEREUS, "Nereus");
    }

    /** About five lines at round numbers. */
    private double step() {
        double rough = most / 5;
        double power = Math.pow(10, Math.floor(Math.log10(rough)));
        return rough / power >= 5 ? 5 * power : rough / power >= 2 ? 2 * power : power;
    }

    private void line(ToDoubleFunction<Scoreboard.Result> value, Color colour, String name) {
        canvas.setColor(colour);
        canvas.setStroke(new BasicStroke(3.5f, BasicStroke.CAP_ROUND, BasicStroke.JOIN_ROUND));
        for (int i = 1; i < points.size(); i++) {
            canvas.drawLine(x(i - 1), y(value.applyAsDouble(points.get(i - 1))), x(i), y(value.applyAsDouble(points.get(i))));
        }
        for (int i = 0; i < points.size(); i++) {
            double here = value.applyAsDouble(points.get(i));
            canvas.setColor(colour);
            canvas.fillOval(x(i) - 6, y(here) - 6, 12, 12);
            Plot.text(canvas, Plot.amount(here), x(i) - 18, y(here) - 14, Font.PLAIN, 14, colour);
        }
        int last = points.size() - 1;
        Plot.text(canvas, name, x(last) + 30, y(value.applyAsDouble(points.get(last))) + 6, Font.BOLD, 18, colour);
    }

    /** Every point ten times the topics of the one before: a logarithmic axis. */
    private int x(int index) {
        return left + 40 + (points.size() == 1 ? 0 : index * (width - 120) / (points.size() - 1));
    }

    private int y(double value) {
        return top + height - (int) (value / most * height);
    }
}
