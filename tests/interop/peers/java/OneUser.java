import io.deephaven.auth.AuthContext;
import io.deephaven.auth.BasicAuthMarshaller;
import java.util.Optional;

/** Lets one user in, by name and password: Deephaven's server comes with everything for basic log-in but the users. */
public class OneUser extends BasicAuthMarshaller {
    public OneUser() {
        super((user, password) -> isThe("one.user", user) && isThe("one.password", password)
                ? Optional.of(new AuthContext.SuperUser())
                : Optional.empty());
    }

    private static boolean isThe(String property, String given) {
        return given.equals(System.getProperty(property));
    }
}
