/** What a user plugs into a broker, as small as it can be: end-to-end tests put it on a broker's class path or into a NAR. */
package io.nereus.tests.plugin;
