// SPDX-License-Identifier: Apache-2.0

import java.io.IOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Does its work in one pod at a time: in the one that leads, as the elector-sidecar beside it says.
 *
 * <p>Nothing but the JDK, 17 or later: {@code java App.java}. Take Leadership as it is, and put your work into work().
 *
 * <pre>
 *   SIDECAR_URL  where the sidecar is (http://localhost:4040)
 *   OUTPUT       the file that the example's work appends to (standard output)
 *   INTERVAL     seconds between two units of work (1)
 *   UNIT         seconds that one unit of work takes at most (2); well below the sidecar's ELECTOR_RENEW_DEADLINE
 * </pre>
 */
public class App {
    /** Milliseconds; work that cannot promise this must ask for its token again during it. */
    static final long UNIT = (long) (Double.parseDouble(env("UNIT", "2")) * 1000);

    static final long INTERVAL = (long) (Double.parseDouble(env("INTERVAL", "1")) * 1000);

    /** One unit of work. What it writes carries the token, so that storage can refuse a leader of the past. */
    static void work(long token) throws IOException {
        Instant time = Instant.now().truncatedTo(ChronoUnit.SECONDS);
        String line = time + " " + env("POD_NAME", "pod") + " " + token + "\n";
        String output = env("OUTPUT", "");
        if (output.isEmpty()) {
            System.out.print(line);
            System.out.flush();
        } else {
            Files.writeString(Path.of(output), line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        }
    }

    /** Works while this pod leads, over and over, until the app is to stop. */
    static void lead(Leadership leadership) {
        try {
            while (leadership.await(UNIT) != 0) {
                long token; // asked for anew for each unit, so that none begins that could end too late
                while ((token = leadership.token(UNIT)) != 0) {
                    work(token);
                    leadership.pause(INTERVAL, token);
                }
                leadership.ended();
            }
            leadership.leave();
        } catch (IOException | InterruptedException e) {
            throw new IllegalStateException("the work has failed", e);
        }
    }

    public static void main(String[] args) throws InterruptedException {
        Thread.setDefaultUncaughtExceptionHandler((thread, e) -> {
            e.printStackTrace(); // an app that cannot work must not go on as if it could
            Runtime.getRuntime().halt(1);
        });
        Leadership leadership = new Leadership(env("SIDECAR_URL", "http://localhost:4040"));
        Thread worker = new Thread(() -> lead(leadership), "work");
        // SIGTERM and SIGINT start this. The other threads go on meanwhile.
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            log("told to stop: finishing the unit of work");
            leadership.stop();
            try {
                worker.join();
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
            Runtime.getRuntime().halt(0); // all is in order, which the JVM's own 143 would not say
        }, "stop"));
        worker.start();
        leadership.watch();
    }

    static String env(String name, String otherwise) {
        String value = System.getenv(name);
        return value == null || value.isEmpty() ? otherwise : value;
    }

    static void log(String what) {
        System.err.println(Instant.now().truncatedTo(ChronoUnit.MILLIS) + " " + what);
    }

    /** What the sidecar last said, and until when it may be believed. All times are in milliseconds. */
    static final class Leadership {
        /** How long a request may block: proxies cut quiet connections after 30 to 60 seconds. */
        private static final long WAIT = 25_000;

        /** How long an answer may take on top of that; none by then counts as "not leader". */
        private static final long SLACK = 5_000;

        /** Between attempts while the sidecar does not answer. */
        private static final long RETRY = 500;

        /** The clock's. */
        private static final long GRAIN = 10;

        private static final Path UPTIME = Path.of("/proc/uptime");
        private static final boolean HAS_UPTIME = Files.isReadable(UPTIME);

        private final String url;
        private final HttpClient http = HttpClient.newBuilder()
                .version(HttpClient.Version.HTTP_1_1)
                .proxy(HttpClient.Builder.NO_PROXY) // which are for other hosts
                .connectTimeout(Duration.ofMillis(SLACK))
                .build();

        private long token; // fencing token of the term in which this pod leads; 0: it does not
        private long until; // end of the validity, on now()'s clock
        private boolean stopping;

        Leadership(String url) {
            this.url = url.replaceFirst("/$", "");
        }

        /** A clock that nobody sets, and that goes on while the machine is suspended where there is one. */
        private static long now() {
            if (!HAS_UPTIME) {
                return TimeUnit.NANOSECONDS.toMillis(System.nanoTime());
            }
            try {
                String uptime = Files.readString(UPTIME);
                return Math.round(Double.parseDouble(uptime.substring(0, uptime.indexOf(' '))) * 1000);
            } catch (IOException e) {
                throw new IllegalStateException("there is no clock any more", e);
            }
        }

        private record Answer(boolean leads, long validFor, long token, String revision) {
            /** The JDK has no JSON. Within a string the quotes would be escaped, so these match fields alone. */
            static Answer of(String json) {
                return new Answer(
                        field(json, "isLeader", "(true|false)").equals("true"),
                        Long.parseLong(field(json, "validForMs", "([0-9]+)")),
                        Long.parseLong(field(json, "fencingToken", "([0-9]+)")),
                        field(json, "revision", "\"([^\"]*)\""));
            }

            private static String field(String json, String name, String value) {
                Matcher found = Pattern.compile("\"" + name + "\":" + value + "[,}]").matcher(json);
                if (!found.find()) {
                    throw new IllegalArgumentException("an answer without " + name + ": " + json);
                }
                return found.group(1);
            }
        }

        /** Follows the sidecar, for ever. */
        void watch() throws InterruptedException {
            String revision = "";
            long wait = 0;
            while (true) {
                long sent = now(); // the validity counts from before the request: no delay of the answer can stretch it
                try {
                    Answer answer = ask(revision, wait);
                    revision = answer.revision();
                    if (answer.leads() && answer.validFor() > 0) {
                        tell(answer.token(), sent + answer.validFor() - GRAIN);
                        wait = Math.min(WAIT, answer.validFor() / 3); // so that the next answer is here before this one is void
                    } else {
                        tell(0, 0);
                        wait = WAIT;
                    }
                } catch (Exception e) { // refused, timed out, not JSON, a field missing: all of it means "not leader"
                    tell(0, 0);
                    log("no answer from the sidecar, so not leader: " + e);
                    revision = "";
                    wait = 0;
                    Thread.sleep(RETRY);
                }
            }
        }

        /** The answer as soon as it is not of this revision; the same again when the wait is over. */
        private Answer ask(String revision, long wait) throws Exception {
            String query = "revision=" + URLEncoder.encode(revision, StandardCharsets.UTF_8) + "&wait=" + wait + "ms";
            HttpRequest request = HttpRequest.newBuilder(URI.create(url + "/leader?" + query)).build();
            HttpResponse<String> response = send(request, wait + SLACK);
            if (response.statusCode() != 200) {
                throw new IOException("status " + response.statusCode() + ": " + response.body());
            }
            return Answer.of(response.body());
        }

        /** A request's own timeout would not cover the body. This one is for the answer as a whole. */
        private HttpResponse<String> send(HttpRequest request, long timeout) throws Exception {
            CompletableFuture<HttpResponse<String>> answer = http.sendAsync(request, HttpResponse.BodyHandlers.ofString());
            try {
                return answer.get(timeout, TimeUnit.MILLISECONDS);
            } finally {
                answer.cancel(true); // where there is none yet
            }
        }

        private synchronized void tell(long token, long until) {
            boolean changed = token != this.token;
            this.token = token;
            this.until = until;
            notifyAll();
            if (changed) {
                log(token == 0 ? "not leading" : "leading with fencing token " + token);
            }
        }

        /** The fencing token where this pod leads for at least that much longer; else 0. */
        synchronized long token(long needed) {
            return until - now() > needed && !stopping ? token : 0;
        }

        /** Blocks until this pod leads, and returns the fencing token; 0 when the app is to stop. */
        synchronized long await(long needed) throws InterruptedException {
            while (!stopping) {
                long valid = token(needed);
                if (valid != 0) {
                    return valid;
                }
                wait();
            }
            return 0;
        }

        /** Blocks that long, or until this pod no longer leads with that token. */
        synchronized void pause(long time, long token) throws InterruptedException {
            long end = now() + time;
            long left;
            while ((left = Math.min(end, until) - now()) > 0 && token(0) == token) {
                wait(left);
            }
        }

        /** Says that the work has stopped: a sidecar that hands the lease over need not wait any longer. */
        void ended() {
            post("/release");
        }

        /** Gives leadership up, for good and at once: the sidecar may not have been told to stop yet. */
        void leave() {
            post("/resign");
            post("/release");
        }

        private void post(String route) {
            try {
                send(HttpRequest.newBuilder(URI.create(url + route)).POST(HttpRequest.BodyPublishers.noBody()).build(), SLACK);
            } catch (Exception e) {
                // it has gone; and 409 is no exception: it does not lead, or is not handing over: nothing to hurry
            }
        }

        /** Ends await() and pause(): the app is to stop. */
        synchronized void stop() {
            stopping = true;
            notifyAll();
        }
    }
}
