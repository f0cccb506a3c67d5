package io.nereus.bench;

import java.awt.BasicStroke;
import java.awt.Color;
import java.awt.Font;
import java.awt.Graphics2D;
import java.awt.RenderingHints;
import java.awt.geom.RoundRectangle2D;
import java.awt.image.BufferedImage;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import javax.imageio.ImageIO;

/**
 * The picture of a run: how many times better than stock each figure is, on a scale where twice as good and half as good
 * are equally far from the middle, and the curve over topic counts below. Drawn with what the JDK has, without a display.
 */
final class Plot {

    static final Color INK = new Color(0x1f2933);
    static final Color FAINT = new Color(0xd5dbe1);
    static final Color MUTED = new Color(0x6b7780);
    static final Color NEREUS = new Color(0x0f8b8d);
    static final Color STOCK = new Color(0xa8723f);
    private static final Color MISSED = new Color(0xd1495b);

    private static final int WIDTH = 1600;
    private static final int MARGIN = 56;
    private static final int HEAD = 150;
    private static final int ROW = 44;
    private static final int CURVE_HEIGHT = 420;
    private static final int BAR_LEFT = 560;
    private static final int BAR_RIGHT = 1180;
    /** A bar beyond these ends at the edge. */
    private static final double LEAST = 1.0 / 64;
    private static final double MOST = 1024;

    private Plot() {
    }

    /** @param subtitles lines below the title */
    static void write(Path file, List<Scoreboard.Result> results, List<String> subtitles) throws IOException {
        List<Scoreboard.Result> bars = results.stream().filter(result -> result.metric().hasTarget()).toList();
        List<Scoreboard.Result> curve = results.stream().filter(result -> result.metric().curveTopics() > 0).toList();
        int barsHeight = bars.isEmpty() ? 0 : 60 + ROW * bars.size();
        int height = HEAD + barsHeight + (curve.isEmpty() ? 0 : CURVE_HEIGHT) + MARGIN;
        BufferedImage image = new BufferedImage(WIDTH, height, BufferedImage.TYPE_INT_RGB);
        Graphics2D canvas = image.createGraphics();
        canvas.setRenderingHint(RenderingHints.KEY_ANTIALIASING, RenderingHints.VALUE_ANTIALIAS_ON);
        canvas.setRenderingHint(RenderingHints.KEY_TEXT_ANTIALIASING, RenderingHints.VALUE_TEXT_ANTIALIAS_ON);
        canvas.setColor(Color.WHITE);
        canvas.fillRect(0, 0, WIDTH, height);
        text(canvas, "Nereus beside stock Pulsar on one BookKeeper bookie", MARGIN, 62, Font.BOLD, 32, INK);
        for (int i = 0; i < subtitles.size(); i++) {
            text(canvas, subtitles.get(i), MARGIN, 94 + 24 * i, Font.PLAIN, 16, MUTED);
        }
        drawBars(canvas, bars);
        if (!curve.isEmpty()) {
            CurvePlot.draw(canvas, curve, MARGIN, HEAD + barsHeight + 30, WIDTH - 2 * MARGIN, CURVE_HEIGHT - 40);
        }
        canvas.dispose();
        ImageIO.write(image, "png", file.toFile());
    }

    /** How many times better than stock, whichever direction is good. */
    private static double better(Scoreboard.Result result) {
        return result.metric().better() == Metric.Better.HIGHER ? result.ratio() : 1 / result.ratio();
    }

    private static double wanted(Metric metric) {
        return metric.better() == Metric.Better.HIGHER ? metric.target() : 1 / metric.target();
    }

    private static void drawBars(Graphics2D canvas, List<Scoreboard.Result> bars) {
        if (bars.isEmpty()) {
            return;
        }
        double least = bars.stream().mapToDouble(Plot::better).min().orElse(1);
        double most = bars.stream().mapToDouble(Plot::better).max().orElse(1);
        int low = (int) Math.floor(Math.log(Math.min(Math.max(least, LEAST), 0.5)) / Math.log(2));
        int high = (int) Math.ceil(Math.log(Math.max(Math.min(most, MOST), 8)) / Math.log(2));
        int top = HEAD + 36;
        int bottom = top + ROW * bars.size();
        text(canvas, "times as good as stock", BAR_LEFT, top - 30, Font.BOLD, 15, INK);
        int step = high - low > 9 ? 2 : 1;
        for (int power = low; power <= high; power += step) {
            double x = x(Math.pow(2, power), low, high);
            canvas.setColor(power == 0 ? INK : FAINT);
            canvas.setStroke(new BasicStroke(power == 0 ? 2f : 1f));
            canvas.drawLine((int) x, top - 4, (int) x, bottom);
            String label = power < 0 ? "1/" + (1 << -power) : (1 << power) + "×";
            text(canvas, label, (int) x - 10, top - 10, Font.PLAIN, 13, MUTED);
        }
        for (int i = 0; i < bars.size(); i++) {
            drawBar(canvas, bars.get(i), top + ROW * i, low, high);
        }
        int legend = bottom + 22;
        swatch(canvas, BAR_LEFT, legend, NEREUS, "target met");
        swatch(canvas, BAR_LEFT + 140, legend, MISSED, "target missed");
        diamond(canvas, BAR_LEFT + 312, legend - 5);
        text(canvas, "target", BAR_LEFT + 326, legend, Font.PLAIN, 14, MUTED);
    }

    private static void drawBar(Graphics2D canvas, Scoreboard.Result result, int y, int low, int high) {
        double one = x(1, low, high);
        double end = x(better(result), low, high);
        text(canvas, result.metric().label(), MARGIN, y + 28, Font.PLAIN, 17, INK);
        canvas.setColor(result.met() ? NEREUS : MISSED);
        canvas.fill(new RoundRectangle2D.Double(Math.min(one, end), y + 10, Math.max(3, Math.abs(end - one)), ROW - 18, 8, 8));
        diamond(canvas, (int) x(wanted(result.metric()), low, high), y + 10 + (ROW - 18) / 2);
        text(canvas, String.format(Locale.ROOT, "%.1f×", better(result)), BAR_RIGHT + 24, y + 28, Font.BOLD, 18, INK);
        String stock = result.metric() == Metric.BARE ? " bare" : " stock";
        text(canvas, amount(result.nereus()) + "  :  " + amount(result.stock()) + stock + "   " + result.metric().unit(),
            BAR_RIGHT + 104, y + 28, Font.PLAIN, 15, MUTED);
    }

    private static double x(double better, int low, int high) {
        double power = Math.max(low, Math.min(high, Math.log(better) / Math.log(2)));
        return BAR_LEFT + (power - low) / (high - low) * (BAR_RIGHT - BAR_LEFT);
    }

    private static void swatch(Graphics2D canvas, int x, int y, Color colour, String label) {
        canvas.setColor(colour);
        canvas.fillRoundRect(x, y - 12, 22, 13, 6, 6);
        text(canvas, label, x + 30, y, Font.PLAIN, 14, MUTED);
    }

    private static void diamond(Graphics2D canvas, int x, int y) {
        canvas.setColor(INK);
        canvas.fillPolygon(new int[] {x - 6, x, x + 6, x}, new int[] {y, y - 7, y, y + 7}, 4);
    }

    static void text(Graphics2D canvas, String text, int x, int y, int style, int size, Color colour) {
        canvas.setFont(new Font(Font.SANS_SERIF, style, size));
        canvas.setColor(colour);
        canvas.drawString(text, x, y);
    }

    /** A number as people say it. */
    static String amount(double value) {
        if (value >= 1e6) {
            return String.format(Locale.ROOT, "%.1fM", value / 1e6);
        } else if (value >= 10_000) {
            return String.format(Locale.ROOT, "%.0fk", value / 1e3);
        } else if (value >= 100) {
            return String.format(Locale.ROOT, "%,.0f", value);
        }
        return String.format(Locale.ROOT, value >= 10 ? "%.1f" : "%.2f", value);
    }
}
